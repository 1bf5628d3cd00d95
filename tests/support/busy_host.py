"""A machine that has other work: loops that leave a process little time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_NICE = 10
"""Weight 110 against 1024 of a loop (sched_prio_to_weight in kernel/sched/core.c)."""


@contextmanager
def busy_host(process: int) -> Iterator[None]:
    """Keep as many cores busy as this process may use, and give the threads of another process a small share of them."""
    for thread in Path(f"/proc/{process}/task").iterdir():
        os.setpriority(os.PRIO_PROCESS, int(thread.name), _NICE)
    with ExitStack() as loops:
        for _ in os.sched_getaffinity(0):
            loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            loops.callback(loop.wait)
            loops.callback(loop.kill)
        yield
