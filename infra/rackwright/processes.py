"""Processes of this machine. Process ID and start time together identify a process, because the kernel reuses IDs."""

from __future__ import annotations

import os
from pathlib import Path


def start_time(pid: int) -> int | None:
    """Return the start time in clock ticks since boot (`man 5 proc`, stat field 22), or None for a process that has exited.

    The first thread of a process may exit before the others, which still hold its files; the process is shown as a zombie then.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if fields[0] == "X" or (fields[0] == "Z" and len(os.listdir(f"/proc/{pid}/task")) < 2):
            return None
    except OSError:
        return None
    return int(fields[19])
