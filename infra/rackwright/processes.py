"""Processes of this machine. Process ID and start time together identify a process, because the kernel reuses IDs."""

from __future__ import annotations

from pathlib import Path


def start_time(pid: int) -> int | None:
    """Return the start time in clock ticks since boot (`man 5 proc`, stat field 22), or None for a process that has exited."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
