"""Removal of the folder of a stack of virtual machines."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NoReturn

import pytest

from rackwright.drivers.vm import sweep
from rackwright.errors import RackwrightError


def test_disks_are_removed_and_named(tmp_path: Path) -> None:
    stack = tmp_path / "lab-vm"
    (stack / "volumes").mkdir(parents=True)
    (stack / "volumes" / "storage0-sharedfs.raw").write_bytes(b"")
    assert sweep.remove_all(stack) == ["disk storage0-sharedfs"]
    assert not stack.exists()


def test_folder_that_does_not_exist_is_removed(tmp_path: Path) -> None:
    assert sweep.remove_all(tmp_path / "lab-vm") == []


def test_file_that_stays_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lab-vm").mkdir()

    def refuse(path: Path) -> NoReturn:
        raise PermissionError(13, "Permission denied", str(path / "disk.qcow2"))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(RackwrightError, match=r"could not remove .*/disk\.qcow2: Permission denied"):
        sweep.remove_all(tmp_path / "lab-vm")
