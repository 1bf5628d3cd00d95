"""Removal of everything that a stack of virtual machines has on this machine, from its folder alone."""

from __future__ import annotations

import shutil
from pathlib import Path

from rackwright.drivers.vm import machine
from rackwright.drivers.vm.network import client
from rackwright.errors import RackwrightError


def remove_all(folder: Path) -> list[str]:
    """Stop and remove machines, network and disks; return what was removed.

    Raises RackwrightError if a process does not exit or a file stays.
    """
    removed: list[str] = []
    for node in sorted(path for path in (folder / "nodes").glob("*") if path.is_dir()):
        machine.remove(node)
        removed.append(f"virtual machine {node.name}")
    if (folder / "network").is_dir():
        client.stop(folder / "network")
        removed.append("network of the virtual machines")
    removed += [f"disk {file.stem}" for file in sorted((folder / "volumes").glob("*.raw"))]
    if folder.is_dir():
        try:
            shutil.rmtree(folder)
        except OSError as error:
            cause = f"could not remove {error.filename}: {error.strerror}"
            raise RackwrightError(cause, path=str(folder), hint="remove the cause, then run the command again") from error
    return removed
