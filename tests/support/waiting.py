"""Waiting for a result that a cluster reaches by itself."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(query: Callable[[], str], wanted: Callable[[str], bool], *, timeout: float, interval: float = 1.0) -> str:
    """Repeat a query until its result is as wanted; return it. `timeout` and `interval`: in seconds."""
    deadline, answer = time.monotonic() + timeout, query()
    while not wanted(answer):
        assert time.monotonic() < deadline, answer
        time.sleep(interval)
        answer = query()
    return answer
