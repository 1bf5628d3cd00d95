"""Speed of a node, which it measures at the start of each round, and when the node counts as slow."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

CHECK: Final = "node.responds_in_time"
"""Key of the check that reports a slow node."""
_FEWEST: Final = 3
"""Number of similar nodes from which their median says how fast a processor is. Chosen: of two values neither is the usual one."""
_RATIO: Final = 4.0
"""Ratio to that median from which a processor is slow. Chosen: memory and processor threads that are in use double the time at most, and a
processor of 3.5 GHz that is held at its lowest frequency, 800 MHz, takes 4.4 times as long."""
_BUSY: Final = 2
"""Factor up to which the limit grows with the slowness of a shared machine. Chosen: an emulated machine of a busy host took 0.63 s."""
_STALLED: Final = 0.1
"""Share of a minute in which processes waited for memory, from which the report states it. Chosen: reading a file back into a full memory
is a few hundredths; a node that swaps or drops the pages of running programs has more than a third."""
_SCARCE: Final = 0.05
"""Share of the memory that is available, below which the report states it. Chosen: below it, Linux reclaims pages of running programs."""
_ORDINARY: Final = 0.03
"""Seconds that a start of Python may always take on a processor: no time limit grows up to it (rackwright.time_limits)."""


@dataclass(frozen=True)
class NodeSpeed:
    """How long a node takes to start Python, and its load at that time."""

    seconds: float
    cpu_seconds: float
    """Seconds of them on a processor. Other processes hardly change it."""
    load: float = 0.0
    """Average number of processes that ran or waited in the last minute (proc_loadavg(5))."""
    processors: int = 1
    available: float | None = None
    """Share of the memory that processes can still have; None where the kernel does not say."""
    stalled: float | None = None
    """Share of the last minute in which a process waited for memory; None where the kernel does not say."""

    def __str__(self) -> str:
        load = f"load {self.load:.1f} on {self.processors} processor{'s' * (self.processors != 1)}{self._memory()}"
        return f"Python starts in {self.seconds:.2f} s, {self.cpu_seconds:.3f} s of it on a processor ({load})"

    def _memory(self) -> str:
        """Return what is short of memory; nothing if nothing is."""
        stalled = self.stalled is not None and self.stalled >= _STALLED
        said = f"; processes waited for memory {self.stalled:.0%} of the last minute" if stalled else ""
        scarce = self.available is not None and self.available < _SCARCE
        return said + (f"; {self.available:.0%} of the memory is available" if scarce else "")


def read_speed(line: str) -> NodeSpeed | None:
    """Return the speed in the first line of a round; None for any other line, and from a node that measured nothing."""
    with contextlib.suppress(ValueError, AttributeError, TypeError, KeyError):
        found = json.loads(line)["speed"]
        started = NodeSpeed(float(found["seconds"]), float(found["cpu_seconds"]), float(found["load"]), int(found["processors"]))
        return replace(started, available=found.get("available"), stalled=found.get("stalled"))
    return None


def fastest(measured: Sequence[NodeSpeed]) -> NodeSpeed:
    """Return the quickest start of several, with the least time on a processor: a single one may be slow by chance."""
    best = min(measured, key=lambda one: one.seconds)
    return replace(best, cpu_seconds=min(one.cpu_seconds for one in measured))


@dataclass(frozen=True)
class SpeedJudgement:
    """Whether a node is slow, in the words of the report."""

    found: str
    expected: str
    is_slow: bool
    exceeds_limit: bool
    """Python starts so late that the time limits of the node's probes are too short for it."""


def judge_speed(
    own: NodeSpeed, others: Sequence[NodeSpeed], similar: Sequence[NodeSpeed], lost: int, limit: float, shared: int = 1
) -> SpeedJudgement:
    """Judge the speed of a node. `others`: all other nodes; `similar`: those of them with the same roles.

    `shared`: the slowness of this machine, if the node runs on it.

    A node is slow in each of these cases:

    - It has no time left for `lost` probes, and Python starts later than after `limit` seconds.
    - Python starts later than `limit` seconds after twice the third quartile of the other nodes; twice the limit on a busy shared machine.
      Where nothing is missing, nodes that are all equally slow are not slow: emulated machines, and nodes that share processors.
    - Its processor takes four times as long as that of most similar nodes. Users' jobs make a node busy and change this figure little.
    """
    started = sorted(one.seconds for one in others) or [0.0]
    allowed = limit if lost else limit * min(shared, _BUSY) + 2 * started[(len(started) - 1) * 3 // 4]
    usual = median(one.cpu_seconds for one in similar) if len(similar) >= _FEWEST else None
    on_processor = max(_RATIO * usual, _ORDINARY) if usual is not None else None
    late = own.seconds > allowed
    slow = on_processor is not None and own.cpu_seconds > on_processor
    missing = f"; {lost} probe{'s' * (lost != 1)} had no time left" if lost else ""
    expected = f"at most {allowed:.2f} s" + (f", {on_processor:.3f} s of it on a processor" if on_processor is not None else "")
    return SpeedJudgement(f"{own}{missing}", expected, late or slow, own.seconds > limit)
