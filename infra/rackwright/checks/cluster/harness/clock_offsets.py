"""How far a node's clock is from this machine's, and how sure that is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Final

from rackwright.checks.cluster.harness.probe import Raw

_TRIES: Final = 15
"""Readings have their intersection in common, so that each narrows the offset. Five left 1.2 s on two emulated cores with a load of 22."""


@dataclass(frozen=True)
class Offset:
    """Seconds a clock is ahead, within plus or minus the uncertainty."""

    seconds: float
    uncertainty: float


def offset(answer: Raw) -> Offset:
    """From an answer that is a time: it was read somewhere between sending the question and having the answer."""
    return Offset(float(answer.out) - (answer.sent + answer.arrived) / 2, (answer.arrived - answer.sent) / 2)


def narrowed(before: Offset, after: Offset) -> Offset:
    """Return what two readings of one clock have in common; the later one where the clock was set between them."""
    least = max(before.seconds - before.uncertainty, after.seconds - after.uncertainty)
    most = min(before.seconds + before.uncertainty, after.seconds + after.uncertainty)
    return Offset((least + most) / 2, (most - least) / 2) if least <= most else after


def common(offsets: Iterable[Offset], enough: float) -> float:
    """Return the median in seconds of the readings that are sure within `enough`; of all where none is."""
    found = list(offsets)
    return median(one.seconds for one in [one for one in found if one.uncertainty <= enough] or found)


def sharpened(first: Offset, read: Callable[[], float], enough: float) -> Offset:
    """The offset read again over the connection that stands by now, until it is sure enough or tried often enough."""
    best = first
    for _ in range(_TRIES):
        if best.uncertainty <= enough:
            break
        sent = time.time()
        try:
            answer = Raw(out=str(read()), sent=sent, arrived=time.time())
        except (RuntimeError, AssertionError, ValueError):  # testinfra's: no connection, a bad status; and no number
            break
        best = narrowed(best, offset(answer))
    return best
