"""The program that measures a disk: which disk it counts, what it counts, and what it does with a disk that refuses or hangs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from support.rows import each_row

from rackwright.remote.programs import disk_latency

OLD = "  104 0 2048 10  205 7 4096 20 0 30 30\n"
"""Counters of Linux before 4.18, without discards."""
NEW = "  100 0 2000 9  200 7 4000 20 0 30 30 5 0 900 1 12 4\n"
"""Counters of Linux 5.5 and later, with discards and flushes."""


def test_real_folder_is_measured(tmp_path: Path) -> None:
    found = disk_latency.main({"folder": str(tmp_path), "writes": 3, "seconds": 60.0})
    assert (len(found["seconds"]), found["unfinished"]) == (3, None) and min(found["seconds"]) >= 0
    assert found["file_system"] and list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_written_ends_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="gone cannot be written: No such file or directory"):
        disk_latency.main({"folder": str(tmp_path / "gone"), "writes": 3, "seconds": 60.0})


def test_missing_folder_of_a_file_system_without_a_device_ends_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_latency, "mounted", lambda *_: ("tmpfs", "tmpfs"))
    with pytest.raises(SystemExit, match="gone cannot be written: No such file or directory"):
        disk_latency.main({"folder": str(tmp_path / "gone"), "writes": 3, "seconds": 60.0})


def test_write_that_hangs_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = tmp_path / "release"
    os.mkfifo(release)
    monkeypatch.setattr(os, "fdatasync", lambda _handle: release.read_bytes())
    found = disk_latency.main({"folder": str(tmp_path), "writes": 1, "seconds": 0.05})
    release.write_bytes(b"go on")
    assert found["seconds"] == [] and found["unfinished"] >= 0.05


def test_killed_process_is_no_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_latency, "write", lambda *_request: os._exit(9))
    with pytest.raises(SystemExit, match="the process was killed"):
        disk_latency.main({"folder": str(tmp_path), "writes": 3, "seconds": 60.0})


def device(folder: Path, counters: str, *, partition: bool = False, below: tuple[Path, ...] = ()) -> Path:
    """Return the folder of a block device as in /sys, with its counters."""
    folder.mkdir(parents=True)
    (folder / "stat").write_text(counters, encoding="ascii")
    if partition:
        (folder / "partition").write_text("1\n", encoding="ascii")
    if below:
        (folder / "slaves").mkdir()
    for one in below:
        (folder / "slaves" / one.name).symlink_to(one)
    return folder


def test_counters_are_those_of_the_disks_below_a_volume(tmp_path: Path) -> None:
    first, second = device(tmp_path / "nvme0n1", OLD), device(tmp_path / "nvme1n1", NEW)
    parts = device(first / "nvme0n1p2", OLD, partition=True), device(second / "nvme1n1p2", NEW, partition=True)
    array = device(tmp_path / "md0", NEW, below=parts)
    volume = device(tmp_path / "dm-0", OLD, below=(array,))
    assert disk_latency.disks_of(str(volume)) == {str(first), str(second)}
    assert disk_latency.completed({str(first), str(second)}) == (104 + 205 + 100 + 200, (2048 + 4096 + 2000 + 4000) * 512)
    assert disk_latency.disks_of(str(second)) == {str(second)}


ROOT = "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
ON_A, ON_B = "30 22 8:16 / /var/tmp rw - xfs /dev/sda rw\n", "31 30 8:32 / /var/tmp rw - ext4 /dev/sdb rw\n"
MOUNTS = {
    "root": (ROOT, "/var/tmp", ("ext4", "/dev/vda1")),
    "btrfs": ("22 1 0:23 /root / rw - btrfs /dev/nvme0n1p3 rw,subvol=/root\n", "/var/tmp", ("btrfs", "/dev/nvme0n1p3")),
    "zfs": ("22 1 0:23 / / rw - zfs rpool/ROOT/debian rw\n", "/var/tmp", ("zfs", "rpool/ROOT/debian")),
    "own-volume": (f"{ROOT}30 22 253:2 / /var rw shared:2 master:1 - xfs /dev/mapper/var rw\n", "/var/tmp", ("xfs", "/dev/mapper/var")),
    "another-folder": (f"{ROOT}30 22 253:2 / /var/tmp2 rw - xfs /dev/sdb rw\n", "/var/tmp", ("ext4", "/dev/vda1")),
    "mounted-over": (f"{ROOT}{ON_A}{ON_B}", "/var/tmp", ("ext4", "/dev/sdb")),
    "folder-named-dash": (f"{ROOT}30 22 8:16 - /var/tmp rw - xfs /dev/sdb rw\n", "/var/tmp", ("xfs", "/dev/sdb")),
}  # fmt: skip


@each_row("case", MOUNTS)
def test_file_system_of_a_folder_is_found(case):
    text, folder, expected = MOUNTS[case]
    assert disk_latency.mounted(text, folder) == expected


def test_limit_ends_the_writes_of_a_slow_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fdatasync", lambda _handle: time.sleep(0.02))
    for seconds in (0.1, 1.0, 10.0):  # On a busy machine the first write begins late.
        written = len(disk_latency.main({"folder": str(tmp_path), "writes": 10_000, "seconds": seconds})["seconds"])
        assert written < 10_000
        if written:
            return
    pytest.fail("no write is counted")
