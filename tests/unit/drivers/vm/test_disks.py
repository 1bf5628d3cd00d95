"""Disks that outlive their machines: created once, extended, never shrunk."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.drivers.vm import disks
from rackwright.errors import RackwrightError


def test_disk_is_sparse_and_extended_with_its_data(tmp_path: Path) -> None:
    file = tmp_path / "volumes" / "a.raw"
    disks.ensure(file, 4)
    with file.open("r+b") as opened:
        opened.write(b"data")
    disks.ensure(file, 8)
    assert file.stat().st_size == 8 * 2**20 and file.read_bytes()[:4] == b"data"
    assert file.stat().st_blocks * 512 < 2**20


def test_smaller_disk_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.raw"
    disks.ensure(file, 8)
    with pytest.raises(RackwrightError, match="8 MiB, 4 are declared"):
        disks.ensure(file, 4)
    assert file.stat().st_size == 8 * 2**20


def test_serial_number_fits_virtio() -> None:
    assert len(disks.serial("a" * 60)) <= 20
