"""The bare operating system under the node image: pulled from a registry if reachable, else bootstrapped from the archive."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from rackwright.drivers.failure_reason import reason_in_output
from rackwright.drivers.podman import image_exists, podman, run_checked
from rackwright.drivers.process import run
from rackwright.errors import RackwrightError

_SUITES: Final = {"debian-12": "bookworm", "debian-13": "trixie"}
_PACKAGES: Final = (
    "ca-certificates",
    "dbus",
    "iproute2",
    "openssh-server",
    "procps",
    "python3-apt",
    "python3-minimal",
    "systemd",
    "systemd-sysv",
)
_LOGIN_IDS: Final = r"sed -i -E 's/^(session[[:space:]]+)required([[:space:]]+pam_loginuid\.so)/\1optional\2/' "
"""A container inherits the audit login id of the person who started it, and only CAP_AUDIT_CONTROL may set another: where PAM requires it,
every login ends (docs/adr/0025-login-ids-in-containers.md)."""
_REGISTRY: Final = "https://registry-1.docker.io/v2/"
_REGISTRY_PATIENCE: Final = 4.0
"""Seconds to wait for the registry. Chosen: a machine without internet access waits that long before each build of the image. Not
measured."""
Say = Callable[[str], Awaitable[None]]


async def ensure(os_name: str, source: str, mirror: str | None, say: Say) -> str:
    """Return the name of a base image; pull or build it unless it is in local storage."""
    suite = _SUITES.get(os_name)
    if suite is None:
        raise RackwrightError(f"target.os: no lab image is known for {os_name}", hint=f"one of {', '.join(_SUITES)}")
    name = f"localhost/rackwright/base-{os_name}:{_digest(suite)}"
    if await image_exists(name):
        return name
    started = time.monotonic()
    if source == "pull" or (source == "auto" and await asyncio.to_thread(_registry_answers)):
        await say(f"image 1/2: pulling {os_name} from a registry")
        await _pull(os_name, name)
    else:
        await say(f"image 1/2: building {os_name} from the distribution's archive (mmdebstrap)")
        await _bootstrap(suite, mirror, name)
    await say(f"image 1/2: {os_name} base ready after {time.monotonic() - started:.0f} s")
    return name


def _digest(suite: str) -> str:
    return hashlib.sha256(" ".join((suite, *_PACKAGES, _LOGIN_IDS)).encode()).hexdigest()[:12]


def _registry_answers() -> bool:
    try:
        urllib.request.urlopen(_REGISTRY, timeout=_REGISTRY_PATIENCE)
    except urllib.error.HTTPError as answer:
        return answer.code == 401
    except OSError:
        return False
    return True


async def _pull(os_name: str, name: str) -> None:
    """Build Debian's own container image plus the packages of a machine."""
    upstream = f"docker.io/library/debian:{os_name.removeprefix('debian-')}"
    await run_checked("pull", "--quiet", upstream, timeout=600)
    install = f"apt-get update && apt-get install -y --no-install-recommends {' '.join(_PACKAGES)} && apt-get clean"
    recipe = f"FROM {upstream}\nRUN {install} && {_LOGIN_IDS}/etc/pam.d/*\n"
    with tempfile.TemporaryDirectory(prefix="rw-base-") as context:  # Without one, podman takes the folder that it runs in.
        await run_checked("build", "--quiet", "--tag", name, "--file", "-", context, stdin=recipe.encode(), timeout=1200)


async def _bootstrap(suite: str, mirror: str | None, name: str) -> None:
    with tempfile.TemporaryDirectory(prefix="rw-base-") as folder:
        archive = Path(folder) / "base.tar"
        command = [
            "mmdebstrap",  # without --quiet, which hides why apt failed
            "--variant=minbase",
            f"--include={','.join(_PACKAGES)}",
            f'--customize-hook={_LOGIN_IDS}"$1"/etc/pam.d/*',
            suite,
            str(archive),
            *([mirror] if mirror else []),
        ]
        ended = await run(command, timeout=1200)
        if not ended.ok:
            raise RackwrightError(
                f"mmdebstrap {suite} failed: {reason_in_output(ended.stderr) or f'exit status {ended.status}'}",
                hint="it needs mmdebstrap and a reachable Debian archive (`make doctor`)",
            )
        await run_checked("import", "--quiet", str(archive), name, timeout=600)
    if not (await podman("image", "exists", name)).ok:
        raise RackwrightError(f"podman import created no image {name}")
