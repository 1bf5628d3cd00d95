"""Device files of simulated GPUs, made with and without the right to make devices."""

from __future__ import annotations

import importlib.util
import os
import stat
import subprocess
from pathlib import Path

import pytest

_FILE = Path(__file__).parents[2] / "roles/gpu/files/simulated_gpu_devices.py"
_SPEC = importlib.util.spec_from_file_location("simulated_gpu_devices", _FILE)
assert _SPEC is not None and _SPEC.loader is not None
devices = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(devices)


@pytest.fixture
def mounts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Record mount and umount commands instead of running them."""
    called: list[tuple[str, ...]] = []
    monkeypatch.setattr(devices.subprocess, "run", lambda command, check: called.append(tuple(command)))
    return called


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    """Stand in for /dev/nvidia."""
    return str(tmp_path / "nvidia")


def test_terminals_have_numbers_of_their_own(mounts: list[tuple[str, ...]], prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = []
    monkeypatch.setattr(devices.subprocess, "run", lambda command, check: numbers.append(os.stat(command[2]).st_rdev))
    devices.mount_terminals(8, prefix)
    assert len(set(numbers)) == 8


def test_terminals_are_closed_when_a_mount_fails(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(command: list[str], check: bool) -> None:
        raise subprocess.CalledProcessError(32, command)

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(devices.subprocess, "run", refuse)
    with pytest.raises(subprocess.CalledProcessError):
        devices.mount_terminals(4, prefix)
    assert len(os.listdir("/proc/self/fd")) == before


def test_terminals_replace_devices_without_permission(mounts: list[tuple[str, ...]], prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(devices.os, "mknod", refuse)
    devices.main(2, 61, prefix)
    assert [(command[0], command[3]) for command in mounts] == [("mount", f"{prefix}0"), ("mount", f"{prefix}1")]


def test_other_failures_are_not_hidden(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(devices.os, "mknod", refuse)
    with pytest.raises(OSError, match="No space"):
        devices.create_devices(1, 61, prefix)


def test_foreign_files_stay(mounts: list[tuple[str, ...]], prefix: str) -> None:
    """A real driver's node is a device with another number; nvidia-uvm and nvidiactl have no index."""
    Path(f"{prefix}0").write_text("not ours")
    Path(f"{prefix}ctl").touch()
    Path(f"{prefix}1").touch()
    devices.remove_devices(61, prefix)
    assert (Path(f"{prefix}0").exists(), Path(f"{prefix}1").exists(), Path(f"{prefix}ctl").exists()) == (True, False, True)


def test_earlier_mounts_are_taken_off(mounts: list[tuple[str, ...]], prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(f"{prefix}0").touch()
    monkeypatch.setattr(devices.os.path, "ismount", lambda path: path == f"{prefix}0")
    devices.remove_devices(61, prefix)
    assert mounts == [("umount", f"{prefix}0")] and not Path(f"{prefix}0").exists()


def test_devices_are_readable_by_jobs(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, int, int]] = []
    monkeypatch.setattr(devices.os, "mknod", lambda path, mode, number: made.append((path, mode, number)) or Path(path).touch())
    devices.create_devices(2, 61, prefix)
    assert made == [(f"{prefix}{index}", stat.S_IFCHR | 0o666, os.makedev(61, index)) for index in range(2)]
    assert os.stat(f"{prefix}1").st_mode & 0o777 == 0o666
