"""When which failure meets which node: decided before the first one from a seed, so that a run can be repeated."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rackwright.operations.chaos.modes import Mode

_SPREAD: Final = 0.5
"""Share of an interval over which a random event may be late. Chosen: two events keep half an interval between them."""


@dataclass(frozen=True)
class ScheduledEvent:
    """A failure that is due."""

    number: int
    mode: Mode
    target: str
    at_s: float
    """Seconds after the start of the run."""
    pick: int
    """Number that chooses a rank or a GPU on the node, whatever their count is then."""


def schedule_events(candidates: Mapping[Mode, Sequence[str]], *, seed: int, interval_s: int, duration_s: int) -> list[ScheduledEvent]:
    """Return the events of a run: one for each interval. With several modes, mode and time are random, too.

    candidates: nodes by mode; the order of both decides, so the caller passes the order of the plan.

    >>> [(one.mode.value, one.target, one.at_s) for one in schedule_events({Mode.NODE_KILL: ["w0"]}, seed=1, interval_s=60, duration_s=120)]
    [('node_kill', 'w0', 0.0), ('node_kill', 'w0', 60.0)]
    """
    chance, modes = random.Random(seed), list(candidates)
    events = []
    for number in range(max(1, duration_s // interval_s)):
        mode = chance.choice(modes)
        target = chance.choice(list(candidates[mode]))
        late = round(chance.uniform(0, _SPREAD * interval_s), 1)
        at_s = number * interval_s + (late if len(modes) > 1 else 0.0)
        events.append(ScheduledEvent(number + 1, mode, target, at_s, chance.randrange(1_000_000)))
    return events
