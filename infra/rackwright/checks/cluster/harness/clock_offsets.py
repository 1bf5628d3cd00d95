"""Offset of a node's clock from the clock of this machine, with its uncertainty."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Final

from rackwright.checks.cluster.harness.probe import CommandOutput

_TRIES: Final = 15
"""Maximum number of readings of a clock. Each narrows the offset. Five left 1.2 s on two emulated cores with a load of 22."""


@dataclass(frozen=True)
class Offset:
    """Offset of a clock: seconds that it is ahead of this machine's, plus or minus the uncertainty."""

    seconds: float
    uncertainty: float


def offset(answer: CommandOutput) -> Offset:
    """Return the offset of an answer that is a time. The node read the clock after the command was sent and before its output arrived."""
    return Offset(float(answer.out) - (answer.sent + answer.arrived) / 2, (answer.arrived - answer.sent) / 2)


def narrowed(before: Offset, after: Offset) -> Offset:
    """Return the intersection of two readings of one clock; the later reading where the clock was set between them."""
    least = max(before.seconds - before.uncertainty, after.seconds - after.uncertainty)
    most = min(before.seconds + before.uncertainty, after.seconds + after.uncertainty)
    return Offset((least + most) / 2, (most - least) / 2) if least <= most else after


def common(offsets: Iterable[Offset], enough: float) -> float:
    """Return the median, in seconds, of the readings with an uncertainty of at most `enough`; of all readings where there are none.

    Without any reading, return 0: no node responded, and each check reports why.
    """
    found = list(offsets)
    return median(one.seconds for one in [one for one in found if one.uncertainty <= enough] or found) if found else 0.0


def sharpened(first: Offset, read: Callable[[], float], enough: float) -> Offset:
    """Read the offset again over the open connection, at most `_TRIES` times, until its uncertainty is at most `enough`."""
    best = first
    for _ in range(_TRIES):
        if best.uncertainty <= enough:
            break
        sent = time.time()
        try:
            answer = CommandOutput(out=str(read()), sent=sent, arrived=time.time())
        except (RuntimeError, AssertionError, ValueError):  # testinfra's: no connection, a non-zero status; and an output that is no number
            break
        best = narrowed(best, offset(answer))
    return best
