"""Slow nodes of a run. Results that a slow node owes for lack of time are attributed to the check that reports the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from rackwright.checks.cluster.harness.node_speed import CHECK, NodeSpeed, SpeedJudgement, judge_speed
from rackwright.checks.cluster.harness.probe import CommandOutput, NodeSlowError
from rackwright.checks.cluster.harness.transport import local_slowness
from rackwright.inventory.concurrency import HERE
from rackwright.inventory.reader import Inventory
from rackwright.time_limits import factor

_REPEATS: Final = 3
"""Measurements of a node that was slow and lost nothing, before it is reported: its daemons may have started a moment before."""


class MeasuredNodes(Protocol):
    """What a run measured."""

    def speed(self, node: str) -> NodeSpeed | None:
        """Return the speed of a node; None if it did not respond or measured nothing."""

    def lost(self, node: str) -> int:
        """Return the number of passive probes of a node that exceeded their time limit."""

    def measure_speed(self, node: str) -> None:
        """Measure the speed of a node once more, a few seconds later."""


class SlowNodes:
    """Judgements on the speed of each node, the same for the whole run: each later round would add a measurement."""

    def __init__(self, declared: Inventory, measured: MeasuredNodes, limit: float | None, reports: Callable[[str, str], bool]) -> None:
        """Set the limit in seconds, None without the check; `reports` returns whether the run includes a check on a node."""
        self._declared, self._measured, self._limit, self._reports = declared, measured, limit, reports
        self._judged: dict[str, SpeedJudgement | None] = {}

    def judge(self, node: str) -> SpeedJudgement | None:
        """Return the judgement on a node; None if its speed is not known."""
        if node not in self._judged:
            self._judged[node] = self._judgement(node)
        return self._judged[node]

    def processor_factor(self, node: str) -> int:
        """Return the factor by which a node's processor alone extends durations: 5 to 8 if it is emulated, 1 if it is not known."""
        own = self._measured.speed(node)
        return factor(own.cpu_seconds) if own else 1

    def cause_of(self, raw: CommandOutput, node: str) -> NodeSlowError | None:
        """Return the slow node that explains why a probe has no result; None for every other cause."""
        return self.cause(node) if raw.timed_out else None

    def cause(self, node: str) -> NodeSlowError | None:
        """Return the cause of time-outs on a node that is too slow for the time limits.

        A node whose limits are long enough for its speed explains nothing, nor does one on which the run has no check of its speed.
        """
        judged = self.judge(node) if self._reports(CHECK, node) else None
        if judged is None or not judged.is_slow or not judged.exceeds_limit:
            return None
        return NodeSlowError(f"{node} is slow: {CHECK}[{node}]")

    def _judgement(self, node: str) -> SpeedJudgement | None:
        judged = self._judge_measured(node)
        for _ in range(_REPEATS):
            if judged is None or not judged.is_slow or self._measured.lost(node):
                break
            self._measured.measure_speed(node)
            judged = self._judge_measured(node)
        return judged

    def _judge_measured(self, node: str) -> SpeedJudgement | None:
        own = self._measured.speed(node)
        if own is None or self._limit is None:
            return None
        roles = self._declared.nodes[node]["roles"]
        others = {name: speed for name in self._declared.nodes if name != node and (speed := self._measured.speed(name)) is not None}
        similar = [speed for name, speed in others.items() if self._declared.nodes[name]["roles"] == roles]
        shared = local_slowness() if self._declared.target in HERE else 1
        return judge_speed(own, list(others.values()), similar, self._measured.lost(node), self._limit, shared)
