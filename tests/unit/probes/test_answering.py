"""Which nodes count as slow, and when only this machine is slow."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.harness.probe import CommandOutput, NodeSlowError
from rackwright.checks.cluster.test_node import test_ssh_latency as ssh_latency  # another name: pytest must not collect it here

LIMIT = 4.0


class Speeds:
    """Judgements on the nodes' speed: one node may be known as slow, and processors may be emulated."""

    def __init__(self, slow: str = "", processor_factor: int = 1) -> None:
        self.slow = slow
        self._factor = processor_factor

    def processor_factor(self, _node: str) -> int:
        return self._factor

    def cause(self, node: str) -> NodeSlowError | None:
        return NodeSlowError(f"{node} is slow: node.responds_in_time[{node}]") if node == self.slow else None


def judged(took: dict[str, float], name: str, target: str = "lab", slow: str = "", factor: int = 1, again: float | None = None) -> bool:
    """Return whether the node counts as fast enough compared with the others; `again`: the time of its second answer, like the first."""

    def raw(_probe: Any, of: str = name) -> CommandOutput:
        return CommandOutput(sent=100.0, arrived=100.0 + took[of])

    try:
        ssh_latency(
            SimpleNamespace(name=name),
            SimpleNamespace(target=target),
            raw,
            lambda _group: [*took],
            Speeds(slow, factor),
            lambda _limit: took[name] if again is None else again,
            Expect(),
            LIMIT,
        )
    except Mismatch:
        return False
    return True


@pytest.mark.parametrize(
    ("others", "mine", "expected"),
    [
        ([0.2, 0.3, 0.3], 0.4, True),
        ([0.2, 0.3, 0.3], 6.2, False),
        ([0.2, 0.3, 6.2], 6.2, False),  # two slow nodes of four do not hide each other
        ([0.3], 6.2, False),
        ([], 0.3, True),
        ([], 6.2, False),
        ([0.5] * 30 + [5.0] * 30, 12.9, True),  # on one machine, half of many nodes are slow by chance
        ([0.5] * 62, 6.2, False),
    ],
)
def test_slowness_is_measured_against_most_nodes(others: list[float], mine: float, expected: bool) -> None:
    took = {f"w{index}": seconds for index, seconds in enumerate(others)} | {"mine": mine}
    assert judged(took, "mine") is expected


@pytest.mark.parametrize(
    ("others", "mine", "expected"),
    [([0.3], 4.2, True), ([0.3] * 20 + [6.2] * 40, 6.2, False), ([6.2] * 3, 6.2, True), ([], 4.1, False)],
)
def test_separate_machines_compare_with_fastest(others: list[float], mine: float, expected: bool) -> None:
    """If most nodes of a rack are slow, each is reported: separate hardware leaves no other cause."""
    took = {f"w{index}": seconds for index, seconds in enumerate(others)} | {"mine": mine}
    assert judged(took, "mine", "hosts") is expected


def test_limit_grows_with_the_time_that_the_processor_needs() -> None:
    """The login of an emulated machine takes 26 s. No other node of a small cluster says that this is usual."""
    assert judged({"mine": 26.0}, "mine", "vm", factor=7)
    assert not judged({"mine": 30.0}, "mine", "vm", factor=7)


def test_late_answer_of_a_slow_node_is_reported_once() -> None:
    """`node.responds_in_time` reports the node, and the answer is late for the same reason."""
    took = {"w0": 0.2, "mine": 6.2}
    with pytest.raises(NodeSlowError, match=r"node\.responds_in_time\[mine\]"):
        judged(took, "mine", slow="mine")
    assert judged({**took, "mine": 0.4}, "mine", slow="mine")
    assert not judged(took, "mine", slow="w0")


def test_single_stall_is_no_slowness() -> None:
    took = {"w0": 0.2, "mine": 26.0}
    assert judged(took, "mine", again=0.3)
    assert not judged(took, "mine", again=math.inf) and not judged(took, "mine", again=6.2)
