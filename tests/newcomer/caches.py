"""What may be handed to a machine to save time: the Pulumi engine and the node image. The machine makes both itself otherwise."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from bootstrap import engine
from bootstrap.machine import Machine as ThisMachine
from newcomer.image import cache_folder
from newcomer.machine import ADMINISTRATOR, Machine
from rackwright.provider.lab.image import image_name
from rackwright.targets import digests

_NODE_OS = "debian-13"
"""`target.os` of stacks/Pulumi.lab.yaml."""
_SCHEDULER = "slurm"
_SAVE_SECONDS = 600.0
_LOAD_SECONDS = 3600.0


def find_engine() -> Path | None:
    """Return the folder of this user's cached engine; None if nothing is cached."""
    folder = engine.cache_folder(ThisMachine.this(os.environ))
    return folder if os.access(folder / "pulumi", os.X_OK) else None


def hand_in_engine(machine: Machine, folder: Path, *, root: bool) -> None:
    """Copy the engine into the cache of the administrator, or of root."""
    target = f".cache/rackwright/{folder.name}"
    machine.copy_folder(ADMINISTRATOR, folder, target)
    if root:
        script = f"sudo mkdir -p ~root/.cache/rackwright && sudo cp -r {target} ~root/.cache/rackwright/"
        machine.require(ADMINISTRATOR, script)


def find_node_image(checkout: Path) -> Path | None:
    """Return the archive of the checkout's node image; export it if Podman here holds the image. None if neither exists."""
    name = node_image_name(checkout)
    archives = cache_folder() / "node-images"
    archive = archives / f"{name.rsplit(':', 1)[1]}.tar"
    if archive.exists():
        return archive
    if shutil.which("podman") is None or subprocess.run(["podman", "image", "exists", name], check=False).returncode != 0:
        return None
    archives.mkdir(parents=True, exist_ok=True)
    fresh = archives / f".{archive.name}.{os.getpid()}"
    command = ["podman", "save", "--quiet", "--format", "oci-archive", "--output", str(fresh), name]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=_SAVE_SECONDS)
        for other in archives.glob("*.tar"):
            other.unlink()
        fresh.rename(archive)
    finally:
        fresh.unlink(missing_ok=True)
    return archive


def node_image_name(checkout: Path) -> str:
    """Return the name under which `make up` looks for the node image of stack `lab`."""
    return image_name({"os": _NODE_OS, "scheduler": _SCHEDULER, "digest": digests.bake(checkout, _SCHEDULER)})


def hand_in_node_image(machine: Machine, archive: Path, *, root: bool) -> None:
    """Load the node image into the storage of the administrator, or of root. The machine needs Podman for it."""
    machine.copy_file(ADMINISTRATOR, archive, ".node-image.tar")
    sudo = "sudo " if root else ""
    machine.require(ADMINISTRATOR, f"{sudo}podman load --quiet --input .node-image.tar && rm .node-image.tar", _LOAD_SECONDS)
