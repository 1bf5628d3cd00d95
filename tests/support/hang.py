"""Waits of a test for an event, at any speed of the machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

HANG_SECONDS: Final = 900.0
"""Seconds after which an event counts as absent. No result depends on how soon the event occurs."""
ENDLESS_SECONDS: Final = 1200
"""Seconds that a command sleeps until the test ends it: longer than HANG_SECONDS, so that its own end is never taken for that."""
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
    """Run a test body with limits multiplied by a factor, up to four times with a larger one each, until it passes.

    For code with a limit of its own for an action, whose duration depends on the load of the machine.
    """
    for factor in _LONGER[:-1]:
        try:
            return scene(factor)
        except AssertionError:
            continue
    return scene(_LONGER[-1])
