"""Processes that a test kills."""

from __future__ import annotations

import os
import signal
import time

from rackwright.processes import start_time


def kill(pid: int) -> None:
    """Kill a process and return when it has exited."""
    os.kill(pid, signal.SIGKILL)
    while start_time(pid) is not None:
        time.sleep(0.01)
