#!/usr/bin/python3
"""Shared file systems as this client sees them: mounted, answering, and their space."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from rackwright_metrics import CollectError, Samples, run

ANSWER_LIMIT = 3.0
"""Seconds for the space of one file system; a file system whose server is gone does not answer for minutes."""


def mounted(text: str) -> set[str]:
    """Return the mount points of /proc/self/mountinfo, whose fifth field escapes blanks as octal numbers.

    >>> mounted(r"36 35 98:0 / /mnt/a\\040b rw - fuse.mfs mfs#s:9421 rw")
    {'/mnt/a b'}
    """
    cells = [line.split(" ") for line in text.splitlines()]
    return {re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), row[4]) for row in cells if len(row) > 5}


def space(mount: str) -> tuple[int, int] | None:
    """Return size and available bytes; None without an answer. The child is left behind: it may not be killable while it waits."""
    child = subprocess.Popen(
        ["stat", "--file-system", "--format=%S %b %a", "--", mount],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        errors="replace",
    )
    try:
        said, _ = child.communicate(timeout=ANSWER_LIMIT)
    except subprocess.TimeoutExpired:
        child.kill()
        return None
    cells = said.split()
    if child.returncode or len(cells) != 3 or not all(cell.isdigit() for cell in cells):
        return None
    block, blocks, available = map(int, cells)
    return block * blocks, block * available


def collect(configuration: Mapping[str, Any], samples: Samples) -> None:
    """A file system that is not mounted is written as 0, and is not asked: the answer would be of the disk below."""
    samples.describe("rackwright_mount_present", "Whether a shared file system is mounted")
    samples.describe("rackwright_mount_answers", "Whether a mounted shared file system answers")
    samples.describe("rackwright_mount_size_bytes", "Size of a shared file system")
    samples.describe("rackwright_mount_avail_bytes", "Space of a shared file system that users may fill")
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as stream:
            live = mounted(stream.read())
    except OSError as error:
        raise CollectError(f"/proc/self/mountinfo: {error.strerror}") from None
    for mount in configuration["mounts"]:
        present = os.path.normpath(mount) in live
        samples.set("rackwright_mount_present", present, mountpoint=mount)
        found = space(mount) if present else None
        if present:
            samples.set("rackwright_mount_answers", found is not None, mountpoint=mount)
        if found:
            samples.set("rackwright_mount_size_bytes", found[0], mountpoint=mount)
            samples.set("rackwright_mount_avail_bytes", found[1], mountpoint=mount)


if __name__ == "__main__":
    sys.exit(run("storage", collect))
