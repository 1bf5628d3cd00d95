"""Run on the node whose disk is measured: write to it, wait until it has each write, and count what it completes meanwhile.

Input: {"folder", "writes": at most so many, "seconds": no write begins later}. Output: {"file_system": type, "seconds": [of each write],
"unfinished": seconds of a write that did not end, or null, "disk": null without a disk, or {"requests", "bytes", "seconds"}}.
Python 3.9, standard library only.
"""

from __future__ import annotations

import os
import select
import sys
import tempfile
import time
from typing import Any

BLOCK = b"x" * 4096
SECTOR = 512
"""Bytes of a sector in the counters of a disk, whatever its own sectors are (Linux, Documentation/block/stat.rst)."""
ERROR = "errno"
"""Word before the number of an error, where the other words are seconds."""
READS, SECTORS_READ, WRITES, SECTORS_WRITTEN = 0, 2, 4, 6
"""Places of the counters in /sys/dev/block/*/stat (as above)."""


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Measure as long as the request says. A write that hangs is left behind: its process ends with it."""
    folder, limit = request["folder"], request["seconds"]
    try:
        file_system, device = mount_of(folder)
    except OSError as error:
        sys.exit(f"{folder} cannot be written: {error.strerror}")
    disks = disks_of(os.path.realpath(device)) if os.path.exists(device) else set()
    before, began = completed(disks), time.monotonic()
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        write(folder, request["writes"], limit, sending)
    os.close(sending)
    words, is_ended = received(receiving, began + limit)
    if is_ended:
        os.waitpid(child, 0)
    now, after = time.monotonic(), completed(disks)
    if words[-2:-1] == [ERROR] or (is_ended and not words):
        sys.exit(f"{folder} cannot be written: {os.strerror(int(words[-1])) if words else 'the process was killed'}")
    seconds = [float(word) for word in words]
    return {
        "file_system": file_system,
        "seconds": seconds,
        "unfinished": None if is_ended else now - began - sum(seconds),
        "disk": {"requests": after[0] - before[0], "bytes": after[1] - before[1], "seconds": now - began} if disks else None,
    }


def mount_of(folder: str) -> tuple[str, str]:
    """Return the type of a folder's file system, and its block device in /sys, which exists only if it has one.

    btrfs gives its files a device of its own kind, so the source of the mount comes first (proc(5), mountinfo).
    """
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        kind, source = mounted(file.read(), os.path.realpath(folder))
    device = os.stat(source).st_rdev if source.startswith("/dev/") and os.path.exists(source) else os.stat(folder).st_dev
    return kind, f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"


def mounted(mountinfo: str, folder: str) -> tuple[str, str]:
    """Return type and source of the file system that has a folder. Of two at the same place, the later one covers the other.

    >>> mounted("22 1 254:0 / / rw - ext4 /dev/vda1 rw\\n23 22 0:5 / /var/tmp rw shared:9 - tmpfs none rw\\n", "/var/tmp")
    ('tmpfs', 'none')
    """
    mounts = [line.split() for line in mountinfo.splitlines()]
    over = [words for words in mounts if f"{folder}/".startswith(words[4].rstrip("/") + "/")]
    longest = max(len(words[4]) for words in over)
    words = [one for one in over if len(one[4]) == longest][-1]
    dash = words.index("-", 6)
    return words[dash + 1], words[dash + 2]


def disks_of(device: str) -> set[str]:
    """Return the disks below a block device: those of a volume or an array, and the disk of a partition."""
    below = os.path.join(device, "slaves")
    parts = os.listdir(below) if os.path.isdir(below) else []
    if parts:
        return set().union(*(disks_of(os.path.realpath(os.path.join(below, part))) for part in parts))
    return {os.path.dirname(device) if os.path.exists(os.path.join(device, "partition")) else device}


def completed(disks: set[str]) -> tuple[int, int]:
    """Return the requests and bytes that disks have completed since boot."""
    requests = size = 0
    for disk in disks:
        with open(os.path.join(disk, "stat"), encoding="ascii") as file:
            counters = [int(word) for word in file.read().split()]
        requests += counters[READS] + counters[WRITES]
        size += (counters[SECTORS_READ] + counters[SECTORS_WRITTEN]) * SECTOR
    return requests, size


def write(folder: str, most: int, limit: float, pipe: int) -> None:
    """Write blocks to a file without a name, and the seconds of each to the pipe; then end this process.

    A process that waits for a disk cannot be killed. It keeps none of the streams that the reader of this program waits for.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    try:
        handle, path = tempfile.mkstemp(prefix=".rackwright-", dir=folder)
        os.unlink(path)
        began = time.monotonic()
        for _ in range(most):
            sent = time.monotonic()
            os.pwrite(handle, BLOCK, 0)
            os.fdatasync(handle)
            os.write(pipe, b"%.6f " % (time.monotonic() - sent))
            if time.monotonic() - began > limit:
                break
    except OSError as error:
        os.write(pipe, f"{ERROR} {error.errno or 0}".encode())
    finally:
        os._exit(0)


def received(pipe: int, until: float) -> tuple[list[str], bool]:
    """Return the words that a process has written until a time, and whether it has ended."""
    text = b""
    while select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
        more = os.read(pipe, 4096)
        if not more:
            return text.decode().split(), True
        text += more
    return text.decode().split(), False
