"""Disks that outlive their machine: sparse raw files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from rackwright.errors import RackwrightError

_MIB: Final = 2**20
"""Bytes of a mebibyte."""


def serial(name: str) -> str:
    """Return a disk's serial number: at most 20 characters, VIRTIO_BLK_ID_BYTES (Linux: include/uapi/linux/virtio_blk.h).

    >>> len(serial("storage0-sharedfs"))
    19
    """
    return f"rw-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def device(name: str) -> str:
    """Return the persistent name of a disk in the guest (udev: 60-persistent-storage.rules)."""
    return f"/dev/disk/by-id/virtio-{serial(name)}"


def ensure(file: Path, size_mib: int) -> None:
    """Create the file, or extend it; raise RackwrightError where it would shrink and lose data."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(mode=0o600)
    wanted, found = size_mib * _MIB, file.stat().st_size
    if found > wanted:
        cause = f"has {found // _MIB} MiB, {size_mib} are declared: a smaller disk would lose data"
        raise RackwrightError(cause, path=str(file), hint="declare the old size, or remove the file if its data can be lost")
    with file.open("r+b") as opened:
        opened.truncate(wanted)
