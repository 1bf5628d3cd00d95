"""Waits of a test for an event that comes sooner or later, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

HANG_SECONDS: Final = 900.0
"""After this time an event counts as one that never comes. Nothing is judged by how soon it comes."""
ENDLESS_SECONDS: Final = 1200
"""What a command sleeps that a test expects to be ended. It outlasts HANG_SECONDS, so that its own end is never taken for that."""
_LONGER: Final = (1, 4, 16, 64)


def wait_until(
    condition: Callable[[], object], failure: Callable[[], str] = lambda: "the condition never held", *, pause: float = 0.05
) -> None:
    """Wait until a condition holds; fail with the text that `failure` returns when it never does."""
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, failure()
        time.sleep(pause)


def try_with_longer_limits(scene: Callable[[int], None]) -> None:
    """Run a scene whose limits are multiplied by the factor that it is given, up to four times with a larger one each, until it passes.

    For code that must get something done within a limit of its own: how long that takes depends on what else the machine does.
    """
    for factor in _LONGER[:-1]:
        try:
            return scene(factor)
        except AssertionError:
            continue
    return scene(_LONGER[-1])
