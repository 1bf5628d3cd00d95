"""Errors of disks in the kernel log: found on each kernel, and not where no disk of the node is broken."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.rows import each_row
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_node
from rackwright.checks.cluster.probes.disk_errors import DISK_ERRORS, parse_disk_errors
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
GOOD = (Path(__file__).parents[1] / "captured" / "disk-errors" / "good.txt").read_text(encoding="utf-8")
BROKEN = (Path(__file__).parents[1] / "captured" / "disk-errors" / "medium-error.txt").read_text(encoding="utf-8")


def log(*lines: str) -> str:
    """Return the output for lines of a kernel log."""
    return "".join(f"{line}\n" for line in (*lines, "end"))


LOGS = {
    "good": (GOOD, PASSED, ""),
    "empty": (log(), PASSED, ""),
    "medium-error-of-nvme": (BROKEN, FAILED, "nvme0n1: critical medium error (READ) at sector 222053776"),
    "directory-cannot-be-read": (BROKEN, FAILED, "nvme0n1p2: EXT4-fs error (device nvme0n1p2): ext4_find_entry:1683"),
    "kernel-5.10": (
        log("blk_update_request: critical medium error, dev nvme0n7, sector 222053776 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0"),
        FAILED, "nvme0n7: critical medium error (READ) at sector 222053776",
    ),
    "kernel-4.18": (
        log("print_req_error: critical medium error, dev sdb, sector 8736552"),
        FAILED, "sdb: critical medium error at sector 8736552",
    ),
    "write": (
        log("I/O error, dev nvme0n1, sector 167431176 op 0x1:(WRITE) flags 0x4000 phys_seg 128 prio class 0"), FAILED, "I/O error (WRITE)",
    ),
    "offline": (
        log("device offline error, dev sdc, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2"),
        FAILED, "device offline error",
    ),
    "full-volume": (
        log("critical space allocation error, dev dm-2, sector 8 op 0x1:(WRITE) flags 0x0"),
        FAILED, "critical space allocation",
    ),
    "virtual-disk": (log("I/O error, dev vda, sector 4660 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2"), FAILED, "vda: I/O error"),
    "path-of-multipath": (log("skipped sdb", "I/O error, dev sdb, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1"), PASSED, ""),
    "other-disk-than-the-path": (log("skipped sdb", "I/O error, dev sdba, sector 0 op 0x0:(READ) flags 0x0"), FAILED, "sdba: I/O error"),
    "refused-zeros": (log("I/O error, dev sda, sector 0 op 0x9:(WRITE_ZEROES) flags 0x0 phys_seg 0 prio class 2"), PASSED, ""),
    "nvme-fell-off": (
        log("nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS read failed (134)",
            "nvme nvme0: Removing after probe failure status: -19"),
        FAILED, "nvme0: nvme nvme0: controller is down",
    ),
    "nvme-not-ready": (log("nvme nvme3: Device not ready; aborting reset, CSTS=0x1"), FAILED, "nvme3: nvme nvme3: Device not ready"),
    "raid": (log("md/raid1:md0: Disk failure on sdb1, disabling device."), FAILED, "sdb1: md/raid1:md0: Disk failure on sdb1"),
    "journal": (log("Aborting journal on device nvme0n1p1-8."), FAILED, "nvme0n1p1: Aborting journal"),
    "journal-of-dm": (log("Aborting journal on device dm-0-8."), FAILED, "dm-0: Aborting journal"),
    "journal-superblock": (log("JBD2: I/O error when updating journal superblock for sda1-8."), FAILED, "sda1: JBD2: I/O error"),
    "flush": (log("JBD2: Detected IO errors while flushing file data on sda1-8"), FAILED, "sda1: JBD2: Detected IO errors"),
    "read-only": (log("EXT4-fs (sda1): Remounting filesystem read-only"), FAILED, "sda1: EXT4-fs (sda1): Remounting"),
    "errors-of-earlier-boots": (log("EXT4-fs (sda1): error count since last fsck: 4"), FAILED, "error count since last fsck: 4"),
    "xfs-metadata": (
        log('XFS (nvme1n1): metadata I/O error in "xfs_buf_ioend+0x1f1" at daddr 0x2 len 1 error 5'),
        FAILED, "nvme1n1: XFS (nvme1n1): metadata",
    ),
    "xfs-log": (log("XFS (sdb1): Filesystem has been shut down due to log error (0x2)."), FAILED, "sdb1: XFS (sdb1): Filesystem"),
    "xfs-corruption": (log("XFS (dm-0): Metadata corruption detected at xfs_agf_read_verify+0x8, xfs_agf block 0x1"), FAILED, "dm-0: XFS"),
    "xfs-unmounted": (log("XFS (sdb1): Unmounting Filesystem"), PASSED, ""),
    "btrfs": (
        log("BTRFS error (device sda2): bdev /dev/sda2 errs: wr 0, rd 12, flush 0, corrupt 0, gen 0"),
        FAILED, "sda2: BTRFS error (device sda2)",
    ),
    "btrfs-option": (log("BTRFS error (device sda2): unrecognized mount option 'nobarier'"), PASSED, ""),
    "btrfs-counters-at-mount": (log("BTRFS info (device sda2): bdev /dev/sda2 errs: wr 0, rd 12, flush 0, corrupt 0, gen 0"), PASSED, ""),
    "file-system-in-a-file": (log("EXT4-fs error (device loop0): ext4_lookup:1787: inode #2: comm ls"), PASSED, ""),
    "network-block-device": (log("I/O error, dev nbd0, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2"), PASSED, ""),
    "slow-request": (log("nvme nvme1: I/O 778 QID 8 timeout, aborting", "nvme nvme1: Abort status: 0x0"), PASSED, ""),
    "line-ends-of-dos": (BROKEN.replace("\n", "\r\n"), FAILED, "critical medium error"),
    "disk-without-name": (log("I/O error, dev , sector 8 op 0x0:(READ) flags 0x0"), UNKNOWN, 'cannot be read: "I/O error, dev , sector 8'),
    "another-kind-and-form": (log("I/O error, dev sda, block 8"), UNKNOWN, "I/O error, dev sda, block 8"),
    "cut-short": (GOOD.removesuffix("end\n"), UNKNOWN, "cut short"),
    "cut-short-after-an-error": (BROKEN.removesuffix("end\n"), FAILED, "critical medium error"),
    "no-output": ("", UNKNOWN, ""),
}  # fmt: skip


@each_row("case", LOGS)
def test_disk_errors_are_judged(case):
    text, expected, said = LOGS[case]
    found, why = verdict_of(test_node.test_no_disk_errors, answers_of({DISK_ERRORS: text}))
    assert (found, said in why) == (expected, True), why


def test_many_errors_of_a_disk_are_counted():
    text = log(*(f"I/O error, dev sda, sector {sector} op 0x0:(READ) flags 0x0" for sector in range(5)))
    assert parse_disk_errors(text) == {
        "sda": "I/O error (READ) at sector 0; I/O error (READ) at sector 1; I/O error (READ) at sector 2; 2 more"
    }


@pytest.fixture
def journal(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose journalctl prints the lines of a file that match `--grep`, as journalctl does."""
    tool = tmp_path / "journalctl"
    tool.write_text(
        '#!/bin/sh\nfor word in "$@"; do case $word in --grep=*) form=${word#--grep=};; esac; done\nexec grep -P -e "$form" "$KERNEL_LOG"\n'
    )
    tool.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "KERNEL_LOG": str(tmp_path / "log")}


def test_command_selects_the_lines_that_are_read(journal: dict[str, str]) -> None:
    """Each fault above passes the command's filter; of a disk that fails, the first lines of each form do."""
    failing = [line for text, verdict, _ in LOGS.values() if verdict is FAILED for line in text.splitlines()]
    faults = [line for line in failing if line != "end" and not line.startswith("skipped ")]
    again = [f"I/O error, dev sdx, sector {sector} op 0x0:(READ) flags 0x0" for sector in range(1000, 1100)]
    Path(journal["KERNEL_LOG"]).write_text("".join(f"{line}\n" for line in ["Linux version 6.12", "usb 1-1: new device", *faults, *again]))
    done = subprocess.run(["/bin/sh", "-c", DISK_ERRORS.command], capture_output=True, text=True, check=True, env=journal)
    every = parse_disk_errors("".join(f"{line}\n" for line in [*faults, *again[:3], "end"]))
    assert parse_disk_errors(done.stdout).keys() == every.keys()
    assert done.stdout.count("dev sdx") == 3 and "usb" not in done.stdout


def test_machine_without_a_kernel_log_is_unknown(journal: dict[str, str]) -> None:
    Path(journal["KERNEL_LOG"]).touch()
    done = subprocess.run(["/bin/sh", "-c", DISK_ERRORS.command], capture_output=True, text=True, check=False, env=journal)
    assert (done.returncode, done.stderr.strip()) == (3, "no log of the kernel")
