"""rackwright.cluster.data_disks, on files in place of disks: wipefs and mkfs.ext4 are the real ones."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.modules import data_disks as disks


@pytest.fixture(autouse=True)
def files_are_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat regular files as block devices."""
    monkeypatch.setattr(disks, "is_block_device", lambda device: Path(device).is_file())


@pytest.fixture
def disk(tmp_path: Path) -> dict[str, str]:
    """Return an empty disk of 16 MiB and its mount point."""
    device = tmp_path / "disk"
    with device.open("wb") as stream:
        stream.truncate(16 * 2**20)
    return {"device": str(device), "mount": str(tmp_path / "mysql")}


def on(disk: dict[str, str], *command: str) -> str:
    """Run a tool on the disk."""
    return subprocess.run([*command, disk["device"]], check=True, capture_output=True, text=True).stdout


def test_empty_disk_is_formatted_once(run: Any, disk: dict[str, str]) -> None:
    first = run(disks, {"disks": [disk]})
    assert (first["failed"], first["changed"], first["formatted"]) == (False, True, [disk["device"]])
    assert on(disk, "wipefs", "--noheadings", "--output", "TYPE").split() == ["ext4"]
    made = Path(disk["device"]).read_bytes()
    again = run(disks, {"disks": [disk]})
    assert (again["changed"], again["formatted"]) == (False, [])
    assert Path(disk["device"]).read_bytes() == made, "what is there is left alone"


def test_check_mode_reports_and_writes_nothing(run: Any, disk: dict[str, str]) -> None:
    told = run(disks, {"disks": [disk]}, check=True, diff=True)
    assert (told["changed"], told["formatted"]) == (True, [disk["device"]])
    assert told["diff"] == {"prepared": f"{disk['device']}: ext4\n"}
    assert not any(Path(disk["device"]).read_bytes())


def swap(disk: dict[str, str]) -> None:
    on(disk, "mkswap")


def partition_table(disk: dict[str, str]) -> None:
    """Write the boot signature and one entry, as fdisk does."""
    entry = bytes([0, 0, 2, 0, 0x83, 0, 0, 0]) + (2048).to_bytes(4, "little") + (4096).to_bytes(4, "little")
    with Path(disk["device"]).open("r+b") as stream:
        stream.seek(446)
        stream.write(entry)
        stream.seek(510)
        stream.write(b"\x55\xaa")


def encrypted(disk: dict[str, str]) -> None:
    """Write the head of a LUKS volume."""
    with Path(disk["device"]).open("r+b") as stream:
        stream.write(b"LUKS\xba\xbe\x00\x01")


def file_system_and_partition_table(disk: dict[str, str]) -> None:
    """Write two signatures, which make the disk ambiguous."""
    on(disk, "mkfs.ext4", "-q", "-F")
    partition_table(disk)


WRITTEN = [(swap, "swap"), (partition_table, "dos"), (encrypted, "crypto_LUKS"), (file_system_and_partition_table, "dos, ext4")]


@pytest.mark.parametrize(("write", "holds"), WRITTEN)
def test_disk_with_other_data_is_refused_and_unchanged(run: Any, disk: dict[str, str], write: Any, holds: str) -> None:
    write(disk)
    before = Path(disk["device"]).read_bytes()
    told = run(disks, {"disks": [disk]})
    assert told["failed"] and f"found {holds} - nothing was written" in told["msg"], told
    assert "wipefs --all" in told["msg"]
    assert Path(disk["device"]).read_bytes() == before


def test_all_disks_are_inspected_before_first_write(run: Any, disk: dict[str, str], tmp_path: Path) -> None:
    other = {"device": str(tmp_path / "other"), "mount": str(tmp_path / "slurm")}
    Path(other["device"]).write_bytes(bytes(16 * 2**20))
    swap(other)
    told = run(disks, {"disks": [disk, other]})
    assert told["failed"]
    assert not any(Path(disk["device"]).read_bytes())


def test_mount_over_files_is_refused(run: Any, disk: dict[str, str]) -> None:
    Path(disk["mount"]).mkdir()
    assert not run(disks, {"disks": [disk]}, check=True)["failed"], "an empty folder hides nothing"
    (Path(disk["mount"]) / "ibdata1").touch()
    told = run(disks, {"disks": [disk]})
    assert told["failed"] and "would hide - nothing was mounted" in told["msg"]
    assert not any(Path(disk["device"]).read_bytes())


def test_empty_directories_of_a_package_are_kept(run: Any, disk: dict[str, str]) -> None:
    (Path(disk["mount"]) / "slurmd" / "spool").mkdir(parents=True)
    (Path(disk["mount"]) / "slurmd").chmod(0o700)
    assert run(disks, {"disks": [disk]})["formatted"] == [disk["device"]]
    listed = subprocess.run(["debugfs", "-R", "ls -p /", disk["device"]], capture_output=True, text=True, check=True).stdout
    assert f"/040700/{os.getuid()}/{os.getgid()}/slurmd//" in listed


def test_link_among_empty_directories_is_refused(run: Any, disk: dict[str, str], tmp_path: Path) -> None:
    (Path(disk["mount"]) / "slurmd").mkdir(parents=True)
    (Path(disk["mount"]) / "slurmd" / "state").symlink_to(tmp_path)
    assert "would hide - nothing was mounted" in run(disks, {"disks": [disk]})["msg"]


def test_mounted_disk_hides_no_files(run: Any, disk: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    on(disk, "mkfs.ext4", "-q", "-F")
    Path(disk["mount"]).mkdir()
    (Path(disk["mount"]) / "ibdata1").touch()
    monkeypatch.setattr(disks.os.path, "ismount", lambda path: str(path) == disk["mount"])
    assert not run(disks, {"disks": [disk]})["failed"]


@pytest.mark.parametrize(("there", "words"), [(False, "device not found after 0 s"), (True, "not a block device")])
def test_unattached_disk_is_reported(run: Any, disk: dict[str, str], monkeypatch: pytest.MonkeyPatch, there: bool, words: str) -> None:
    monkeypatch.setattr(disks, "is_block_device", lambda _: False)
    if not there:
        Path(disk["device"]).unlink()
    told = run(disks, {"disks": [disk], "timeout": 0})
    assert told["failed"] and words in told["msg"]


def test_module_waits_for_late_disk(run: Any, disk: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter([False, False, True])
    monkeypatch.setattr(disks, "is_block_device", lambda _: next(seen))
    assert run(disks, {"disks": [disk], "timeout": 600})["formatted"] == [disk["device"]]


def test_failed_tool_is_reported_with_reason(run: Any, disk: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert "wipefs: command not found" in run(disks, {"disks": [disk]})["msg"]
    monkeypatch.undo()
    monkeypatch.setattr(disks, "is_block_device", lambda _: True)
    Path(disk["device"]).unlink()
    assert "wipefs" in run(disks, {"disks": [disk]})["msg"]


def test_regular_file_is_no_block_device(tmp_path: Path) -> None:
    """The real query, which the other tests replace."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("real_disks", disks.__file__)
    assert spec is not None
    assert spec.loader is not None
    real = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(real)
    (tmp_path / "file").touch()
    assert [real.is_block_device(str(path)) for path in (tmp_path / "file", tmp_path / "none", "/dev/null")] == [False, False, False]


def test_new_file_system_starts_with_the_files_of_the_image(run: Any, disk: dict[str, str], tmp_path: Path) -> None:
    Path(disk["mount"]).mkdir()
    (Path(disk["mount"]) / "ibdata1").write_text("rows")
    assert run(disks, {"disks": [disk], "keep_files": True})["formatted"] == [disk["device"]]
    assert subprocess.run(["debugfs", "-R", "cat /ibdata1", disk["device"]], capture_output=True, text=True, check=True).stdout == "rows"
    made = Path(disk["device"]).read_bytes()
    assert run(disks, {"disks": [disk], "keep_files": True})["changed"] is False
    assert Path(disk["device"]).read_bytes() == made
