"""Build of the node image: run the roles' install steps once, over SSH, in a container of the base image, and commit the container."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackwright import layout
from rackwright.drivers import ansible
from rackwright.drivers.podman import SECRET_PREFIX, STACK_LABEL, SecretFile, limits, podman, podman_secrets, run_checked
from rackwright.drivers.process import run
from rackwright.drivers.ssh_key_pair import generate
from rackwright.errors import RackwrightError
from rackwright.inventory import baked_roles
from rackwright.time_limits import slowness

Say = Callable[[str], Awaitable[None]]
_STACK = ".bake"
"""Value of the label of bake containers; no stack can have this name."""
_BUNDLE = "/run/bake/bundle"
"""Mount point of the bundle: copying 700 MB over SSH would take longer than all other steps."""


@dataclass(frozen=True)
class ImageBuild:
    """Source image and result of a build."""

    base: str
    name: str
    os: str
    scheduler: str
    bundle: str | None
    """Folder with the Kubernetes bundle, for clusters without a repository."""


async def bake(baking: ImageBuild, info: Say, status: Say) -> None:
    """Build one image from another."""
    started, name = time.monotonic(), baking.name
    await info("image 2/2: installing what the roles need")
    container = f"rackwright-bake-{baking.name.rsplit(':', 1)[1]}"
    await podman("rm", "--force", "--time", "0", container)
    with tempfile.TemporaryDirectory(prefix="rw-bake-") as folder:
        try:
            await _start(container, baking, Path(folder))
            await _install(Path(folder), baking, status)
            await run_checked("commit", "--quiet", "--change", "CMD=/sbin/init", container, name, timeout=600)
        finally:
            await podman("rm", "--force", "--time", "0", container, cleans_up=True)
    await info(f"image 2/2: {name} ready after {time.monotonic() - started:.0f} s")


async def _start(container: str, baking: ImageBuild, folder: Path) -> None:
    public, private = generate("rackwright-bake")
    host_public, host_private = generate("rackwright-bake-host")
    files = [
        SecretFile(f"{SECRET_PREFIX}.{_STACK}.host-key", "/run/bake/host-key", host_private),
        SecretFile(f"{SECRET_PREFIX}.{_STACK}.authorized-key", "/run/bake/authorized-keys", public + "\n"),
    ]
    serve = "exec /usr/sbin/sshd -D -e -h /run/bake/host-key -o AuthorizedKeysFile=/run/bake/authorized-keys"
    async with podman_secrets(files) as secrets:
        await run_checked(
            *(
                "run",
                "--detach",
                "--name",
                container,
                "--label",
                f"{STACK_LABEL}={_STACK}",
                "--http-proxy=false",
                "--publish",
                "127.0.0.1::22",
            ),
            *limits(),
            *secrets,
            *(("--volume", f"{baking.bundle}:{_BUNDLE}:ro") if baking.bundle else ()),
            *(baking.base, "/bin/sh", "-c", f"mkdir -p /run/sshd && {serve}"),
        )
    port = (await run_checked("port", container, "22/tcp")).rsplit(":", 1)[1]
    key = folder / "id_ed25519"
    key.touch(mode=0o600)
    key.write_text(private)
    (folder / "known_hosts").write_text(f"bake {host_public}\n")
    (folder / "ssh_config").write_text(_ssh_config(folder, port))
    await _wait_for_ssh(folder)


def _ssh_config(folder: Path, port: str) -> str:
    return (
        f"Host bake\n  HostName 127.0.0.1\n  Port {port}\n  User root\n  IdentityFile {folder}/id_ed25519\n  IdentitiesOnly yes\n"
        f"  HostKeyAlias bake\n  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n"
        f"  LogLevel ERROR\n  ConnectTimeout {3 * slowness()}\n"
    )


async def _wait_for_ssh(folder: Path) -> None:
    error = ""
    for _ in range(60):
        ended = await run(["ssh", "-F", str(folder / "ssh_config"), "bake", "true"], timeout=10 * slowness())
        if ended.ok:
            return
        error = ended.stderr.strip()
        await asyncio.sleep(0.25)
    raise RackwrightError(f"the image build container is not reachable over SSH: {error}")


async def _install(folder: Path, baking: ImageBuild, status: Say) -> None:
    inventory = folder / "inventory.json"
    inventory.write_text(json.dumps(_inventory(folder, baking)))
    applied = await ansible.play(layout.product_root(), "build-image.yml", inventory=inventory, on_progress=status)
    if applied.reasons:
        raise RackwrightError("baking the node image failed:\n" + "\n".join(applied.reasons))


def _inventory(folder: Path, baking: ImageBuild) -> dict[str, Any]:
    """Return an inventory of one host without a plan: installed packages must not depend on the cluster's layout."""
    return {
        "all": {
            "vars": {
                "ansible_user": "root",
                "ansible_python_interpreter": "/usr/bin/python3",
                "ansible_ssh_common_args": f"-F {folder}/ssh_config",
                "bake_roles": list(baked_roles(baking.scheduler, baking.os)),
                "cluster": {
                    "target": "lab",
                    "preinstalled_roles": [],
                    "simulated": ["gpu", "fabric"],
                    "scheduler": {"kind": baking.scheduler, "bundled": baking.bundle is not None},
                },
                "kubernetes_bundle": _BUNDLE,
                "kubernetes_bundle_mounted": True,
                "fabric": {"kind": "infiniband", "server": "bake", "subnet_manager": "bake"},
                "node": {"name": "bake", "os": baking.os, "roles": [], "gpus": None, "features": []},
            },
            "hosts": {"bake": {"ansible_host": "bake"}},
        }
    }
