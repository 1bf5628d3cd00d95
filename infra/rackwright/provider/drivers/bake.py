"""Runs the roles' install steps once, over SSH, in a container of the base image, and keeps the result as the node image."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from rackwright.errors import RackwrightError
from rackwright.handover import paths
from rackwright.provider.drivers import ansible
from rackwright.provider.drivers.podman import SECRET_PREFIX, STACK_LABEL, SecretFile, handed_over, limits, must, podman
from rackwright.provider.drivers.process import run
from rackwright.provider.key_pair import generate

Say = Callable[[str], Awaitable[None]]
_STACK = ".bake"
"""The label of bake containers; no stack can have this name."""


async def bake(base: str, name: str, info: Say, status: Say) -> None:
    """Make image `name` from image `base`."""
    started = time.monotonic()
    await info("image 2/2: installing what the roles need")
    container = f"rackwright-bake-{name.rsplit(':', 1)[1]}"
    await podman("rm", "--force", "--time", "0", container)
    with tempfile.TemporaryDirectory(prefix="rw-bake-") as folder:
        try:
            await _start(container, base, Path(folder))
            await _install(Path(folder), name, status)
            await must("commit", "--quiet", "--change", "CMD=/sbin/init", container, name, timeout=600)
        finally:
            await podman("rm", "--force", "--time", "0", container, cleans_up=True)
    await info(f"image 2/2: {name} ready after {time.monotonic() - started:.0f} s")


async def _start(container: str, base: str, folder: Path) -> None:
    public, private = generate("rackwright-bake")
    host_public, host_private = generate("rackwright-bake-host")
    files = [
        SecretFile(f"{SECRET_PREFIX}.{_STACK}.host-key", "/run/bake/host-key", host_private),
        SecretFile(f"{SECRET_PREFIX}.{_STACK}.authorized-key", "/run/bake/authorized-keys", public + "\n"),
    ]
    serve = "exec /usr/sbin/sshd -D -e -h /run/bake/host-key -o AuthorizedKeysFile=/run/bake/authorized-keys"
    async with handed_over(files) as secrets:
        await must(
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
            *(base, "/bin/sh", "-c", f"mkdir -p /run/sshd && {serve}"),
        )
    port = (await must("port", container, "22/tcp")).rsplit(":", 1)[1]
    key = folder / "id_ed25519"
    key.touch(mode=0o600)
    key.write_text(private)
    (folder / "known_hosts").write_text(f"bake {host_public}\n")
    (folder / "ssh_config").write_text(_ssh_config(folder, port))
    await _answer(folder)


def _ssh_config(folder: Path, port: str) -> str:
    return (
        f"Host bake\n  HostName 127.0.0.1\n  Port {port}\n  User root\n  IdentityFile {folder}/id_ed25519\n  IdentitiesOnly yes\n"
        f"  HostKeyAlias bake\n  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n"
        f"  LogLevel ERROR\n  ConnectTimeout 3\n"
    )


async def _answer(folder: Path) -> None:
    said = ""
    for _ in range(60):
        ended = await run(["ssh", "-F", str(folder / "ssh_config"), "bake", "true"], timeout=10)
        if ended.ok:
            return
        said = ended.stderr.strip()
        await asyncio.sleep(0.25)
    raise RackwrightError(f"the container that bakes the image does not answer over SSH: {said}")


async def _install(folder: Path, name: str, status: Say) -> None:
    inventory = folder / "inventory.json"
    inventory.write_text(json.dumps(_inventory(folder, name)))
    applied = await ansible.play(paths.project_root(), "bake.yml", inventory=inventory, on_progress=status)
    if applied.reasons:
        raise RackwrightError("baking the node image failed:\n" + "\n".join(applied.reasons))


def _inventory(folder: Path, name: str) -> dict[str, Any]:
    """One host, no plan: what installs must not depend on what the cluster looks like."""
    os_name = name.rsplit("/", 1)[1].split(":")[0].removeprefix("node-")
    return {
        "all": {
            "vars": {
                "ansible_user": "root",
                "ansible_python_interpreter": "/usr/bin/python3",
                "ansible_ssh_common_args": f"-F {folder}/ssh_config",
                "cluster": {"target": "lab", "baked_roles": [], "simulated": ["gpu", "fabric"]},
                "fabric": {"kind": "infiniband", "simulated": True, "subnet_manager": "bake"},
                "node": {"name": "bake", "os": os_name, "roles": [], "gpus": None},
            },
            "hosts": {"bake": {"ansible_host": "bake"}},
        }
    }
