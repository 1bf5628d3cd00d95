"""Processes by number and start time: a number alone may belong to another process by now."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

_STATE, _START = 0, 19
"""Positions after the command in /proc/PID/stat (proc_pid_stat(5): fields 3 and 22)."""


@dataclass(frozen=True)
class Process:
    """A process of this machine, as it was when it was recorded."""

    pid: int
    started: int
    """Clock ticks between boot and the start of the process."""

    @classmethod
    def observe(cls, pid: int, proc: Path = Path("/proc")) -> Process | None:
        """Return the process that has this number now; None if there is none, or only a zombie."""
        try:
            text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        return parse_stat(pid, text)

    @classmethod
    def read(cls, path: Path) -> Process | None:
        """Return the process recorded in a file; None if the file holds none."""
        try:
            pid, started = path.read_text(encoding="utf-8").split()
            return cls(int(pid), int(started))
        except (OSError, ValueError):
            return None

    def record(self, path: Path) -> None:
        """Write the process to a file."""
        path.write_text(f"{self.pid} {self.started}\n", encoding="utf-8")

    def is_alive(self, proc: Path = Path("/proc")) -> bool:
        """Return whether this very process still runs."""
        return Process.observe(self.pid, proc) == self

    def end(self, seconds: float = 10.0) -> None:
        """Send SIGTERM, then SIGKILL after `seconds`. Do nothing if another process has the number."""
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                # The descriptor is opened before the comparison, so the signal cannot reach a successor.
                descriptor = os.pidfd_open(self.pid)
                try:
                    if self.is_alive():
                        signal.pidfd_send_signal(descriptor, signal_number)
                finally:
                    os.close(descriptor)
            if self.wait(seconds):
                return

    def wait(self, seconds: float) -> bool:
        """Return whether the process ends within `seconds`."""
        deadline = time.monotonic() + seconds
        while self.is_alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True


def parse_stat(pid: int, text: str) -> Process | None:
    """Return the process of a line of /proc/PID/stat. The command may hold spaces and brackets, so its last bracket counts."""
    fields = text.rpartition(")")[2].split()
    if len(fields) <= _START or fields[_STATE] in "ZX":
        return None
    return Process(pid, int(fields[_START]))
