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
    if pid <= 0 or start_time(pid) != since:
        return False
    with suppress(OSError):
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        return any(arguments[at : at + len(words)] == list(words) for at in range(len(arguments)))
    return False


def terminate(pid: int, since: int, words: Sequence[str], *, patience: float) -> bool:
    """Terminate a process, and kill it after `patience` seconds. Return whether it has exited. Ignore another process with the same ID."""
    for number, wait in ((signal.SIGTERM, patience), (signal.SIGKILL, patience)):
        if not is_running(pid, since, words):
            return True
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + wait
        while is_running(pid, since, words) and time.monotonic() < deadline:
            time.sleep(_PAUSE)
    return not is_running(pid, since, words)
