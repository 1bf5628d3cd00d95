"""Processes that outlive their parent, identified by process ID and start time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from rackwright.processes import start_time

_PAUSE: Final = 0.05
"""Seconds between two reads of a process that is stopping. Chosen: short against the time-out in seconds, long against a read of /proc."""


def is_running(pid: int, since: int, words: Sequence[str]) -> bool:
    """Return whether this process runs and was started with these words among its arguments, in this order."""
    arguments = _arguments(pid, since) or ()
    return any(arguments[at : at + len(words)] == tuple(words) for at in range(len(arguments)))


def is_exiting(pid: int, since: int) -> bool:
    """Return whether the kernel has released the memory of this process, but not yet its files, locks and ports.

    `/proc/PID/cmdline` is empty then (exit_mm() precedes exit_files() in do_exit() of kernel/exit.c, Linux 6.12).
    """
    return _arguments(pid, since) == ()


def terminate(pid: int, since: int, words: Sequence[str], *, patience: float) -> bool:
    """Terminate a process, and kill it after `patience` seconds. Return whether it has exited. Ignore another process with the same ID."""
    for number, wait in ((signal.SIGTERM, patience), (signal.SIGKILL, patience)):
        if is_running(pid, since, words):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        elif not is_exiting(pid, since):
            return True
        deadline = time.monotonic() + wait
        while start_time(pid) == since and time.monotonic() < deadline:
            time.sleep(_PAUSE)
    return start_time(pid) != since


def _arguments(pid: int, since: int) -> tuple[str, ...] | None:
    """Return a process's arguments, none for one that is exiting, or None if it has exited or is another one."""
    if pid <= 0 or start_time(pid) != since:
        return None
    try:
        content = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    return tuple(content.decode(errors="replace").split("\0")) if content else ()
