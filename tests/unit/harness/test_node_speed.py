"""When a node counts as slow, and which missing results that explains."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from rackwright.catalog.checks import checks
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.harness.node_speed import CHECK, NodeSpeed, fastest, judge_speed, read_speed
from rackwright.checks.cluster.harness.probe import CommandOutput
from rackwright.checks.cluster.harness.pytest_plugin import verdict_of
from rackwright.checks.cluster.harness.slow_nodes import SlowNodes
from rackwright.checks.cluster.test_node import test_responds_in_time as responds_in_time  # another name: pytest must not collect it here
from rackwright.errors import UndeterminedError
from rackwright.report.verdict import SkipReason, Verdict
from rackwright.time_limits import MAX_SLOWNESS, factor

LIMIT = 0.45


def speeds(*seconds: float, cpu: float = 0.009) -> list[NodeSpeed]:
    return [NodeSpeed(one, cpu) for one in seconds]


@pytest.mark.parametrize(
    ("own", "others", "lost", "slow"),
    [
        pytest.param(0.02, [0.02] * 3, 0, False, id="as-its-peers"),
        pytest.param(0.9, [0.02] * 3, 0, True, id="one-slow"),
        pytest.param(0.9, [0.02, 0.9, 0.9], 0, False, id="most-slow-and-nothing-lost"),
        pytest.param(0.9, [0.9] * 3, 12, True, id="all-slow-and-results-lost"),
        pytest.param(0.4, [0.4] * 3, 12, False, id="results-lost-within-the-limits"),
        pytest.param(0.5, [0.2, 0.23, 0.15], 0, False, id="emulated-beside-a-busy-loop"),
        pytest.param(0.9, [], 0, True, id="alone-and-slow"),
        pytest.param(0.4, [], 0, False, id="alone-within-the-limits"),
        pytest.param(3.0, [0.3] * 30 + [1.5] * 30, 0, False, id="many-on-one-machine"),
        pytest.param(0.19, [0.009] * 8, 0, False, id="worker-with-twenty-processes-for-each-core"),
    ],
)
def test_start_of_python_is_compared(own: float, others: list[float], lost: int, slow: bool) -> None:
    judged = judge_speed(NodeSpeed(own, 0.009), speeds(*others), speeds(*others), lost, LIMIT)
    assert judged.is_slow is slow


def test_nodes_on_a_slow_machine_have_its_slowness() -> None:
    """An emulated node on a busy machine starts Python in 0.63 s. Without time for its probes, it is slow all the same."""
    own = NodeSpeed(0.63, 0.436, 5.5, 2)
    assert judge_speed(own, [], [], 0, LIMIT).is_slow
    assert not judge_speed(own, [], [], 0, LIMIT, shared=2).is_slow
    assert judge_speed(own, [], [], 1, LIMIT, shared=2).is_slow


@pytest.mark.parametrize(
    ("own", "similar", "slow"),
    [
        pytest.param(0.08, [0.009] * 4, True, id="throttled"),
        pytest.param(0.018, [0.009] * 4, False, id="memory-in-use"),
        pytest.param(0.029, [0.005] * 4, False, id="below-what-limits-are-made-for"),
        pytest.param(0.2, [0.15, 0.2, 0.23], False, id="all-emulated"),
        pytest.param(0.2, [0.009, 0.009], False, id="too-few-to-compare"),
        pytest.param(0.08, [0.009, 0.009, 0.08], True, id="two-of-four-throttled"),
    ],
)
def test_time_on_a_processor_is_compared_with_similar_nodes(own: float, similar: list[float], slow: bool) -> None:
    others = [NodeSpeed(0.1, one) for one in similar]
    judged = judge_speed(NodeSpeed(0.1, own), others, others, 0, LIMIT)
    assert (judged.is_slow, judged.exceeds_limit) == (slow, False)


def test_judgement_states_measured_expected_and_what_is_missing() -> None:
    own = NodeSpeed(2.5, 0.012, load=81.5, processors=4)
    judged = judge_speed(own, speeds(0.02, 0.02, 0.02), speeds(0.02, 0.02, 0.02), 47, LIMIT)
    assert judged.found == "Python starts in 2.50 s, 0.012 s of it on a processor (load 81.5 on 4 processors); 47 probes had no time left"
    assert judged.expected == "at most 0.45 s, 0.036 s of it on a processor"


def test_limit_is_the_speed_up_to_which_time_limits_grow() -> None:
    limit = checks()[CHECK].limit
    assert limit is not None and factor(limit) == MAX_SLOWNESS and factor(limit - 0.031) == MAX_SLOWNESS - 1


def test_speed_is_read_from_the_first_line_only() -> None:
    speed = {"seconds": 0.2, "cpu_seconds": 0.1, "load": 1.5, "processors": 2}
    assert read_speed(json.dumps({"begun": True, "slowness": 7, "speed": speed})) == NodeSpeed(0.2, 0.1, 1.5, 2)
    for line in ('{"begun": true, "slowness": 7}', '{"name": "speed", "out": "x"}', "Welcome", "[1]", '{"speed": {"seconds": "x"}}'):
        assert read_speed(line) is None


@pytest.mark.parametrize(
    ("available", "stalled", "said"),
    [
        pytest.param(0.02, 0.43, "; processes waited for memory 43% of the last minute; 2% of the memory is available)", id="short"),
        pytest.param(0.4, 0.43, "; processes waited for memory 43% of the last minute)", id="one-job-at-its-limit"),
        pytest.param(0.02, None, "; 2% of the memory is available)", id="kernel-measures-no-stalls"),
        pytest.param(0.4, 0.03, "processor)", id="enough"),
        pytest.param(None, None, "processor)", id="nothing-known"),
    ],
)
def test_lack_of_memory_is_stated(available: float | None, stalled: float | None, said: str) -> None:
    line = {"seconds": 2.0, "cpu_seconds": 0.1, "load": 1.5, "processors": 1, "available": available, "stalled": stalled}
    own = read_speed(json.dumps({"speed": line}))
    assert own is not None
    assert str(fastest([own])).endswith(said)


def test_quickest_start_counts() -> None:
    """The first one of a node may read Python from a disk."""
    assert fastest([NodeSpeed(0.9, 0.02, 5.0), NodeSpeed(0.1, 0.03, 4.0)]) == NodeSpeed(0.1, 0.02, 4.0)


class Measured:
    """A run with three quick workers and one that is being judged."""

    def __init__(self, own: NodeSpeed | None, lost: int = 40) -> None:
        self.own, self.missing = own, lost
        self.later: list[NodeSpeed] = []
        self.repeats = 0

    def speed(self, node: str) -> NodeSpeed | None:
        return self.own if node == "worker0" else NodeSpeed(0.02, 0.009)

    def lost(self, node: str) -> int:
        assert node == "worker0"
        return self.missing

    def measure_speed(self, node: str) -> None:
        assert node == "worker0" and self.own is not None
        self.repeats += 1
        self.own = fastest([self.own, *self.later[: self.repeats]])


DECLARED = SimpleNamespace(target="hosts", nodes={f"worker{number}": {"roles": ["worker"]} for number in range(4)})
LATE = CommandOutput(error="gpus: the node had no time left for it", starved_seconds=8.0)
CUT_OFF = CommandOutput(error="worker0 stopped responding: no end after 153 s")


def slow_nodes(own: NodeSpeed | None, reported: bool = True) -> SlowNodes:
    return SlowNodes(DECLARED, Measured(own), LIMIT, lambda key, node: reported and (key, node) == (CHECK, "worker0"))


@pytest.mark.parametrize("raw", [LATE, CUT_OFF], ids=["no-time-left", "round-cut-off"])
def test_missing_answer_follows_from_slow_node(raw: CommandOutput) -> None:
    cause = slow_nodes(NodeSpeed(2.0, 0.1)).cause_of(raw, "worker0")
    assert str(cause) == f"worker0 is slow: {CHECK}[worker0]"
    assert verdict_of(cause, Expect()) == (Verdict.SKIPPED, SkipReason.NODE_SLOW)


@pytest.mark.parametrize(
    ("own", "raw", "reported"),
    [
        pytest.param(NodeSpeed(0.02, 0.009), LATE, True, id="hanging-tool-on-a-quick-node"),
        pytest.param(NodeSpeed(0.2, 0.19), LATE, True, id="limits-are-long-enough-for-a-throttled-node"),
        pytest.param(None, LATE, True, id="speed-unknown"),
        pytest.param(NodeSpeed(2.0, 0.1), LATE, False, id="speed-not-part-of-the-run"),
        pytest.param(NodeSpeed(2.0, 0.1), CommandOutput(rc=127, err="sh: 1: nvidia-smi: not found"), True, id="tool-missing"),
        pytest.param(NodeSpeed(2.0, 0.1), CommandOutput(error="worker0 is unreachable: Connection refused"), True, id="unreachable"),
    ],
)
def test_other_causes_stay_unknown(own: NodeSpeed | None, raw: CommandOutput, reported: bool) -> None:
    assert slow_nodes(own, reported).cause_of(raw, "worker0") is None


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param(NodeSpeed(0.9, 0.009, 60.0), 1, id="load-does-not-count"),
        pytest.param(NodeSpeed(0.2, 0.19), 7, id="emulated"),
        pytest.param(None, 1, id="unknown"),
    ],
)
def test_processor_factor_is_that_of_the_processor_alone(own: NodeSpeed | None, expected: int) -> None:
    assert slow_nodes(own).processor_factor("worker0") == expected


def test_judgement_does_not_change_with_later_measurements() -> None:
    measured = Measured(NodeSpeed(2.0, 0.1))
    found = SlowNodes(DECLARED, measured, LIMIT, lambda *_: True)
    first = found.judge("worker0")
    measured.own = NodeSpeed(0.01, 0.009)
    assert found.judge("worker0") is first


@pytest.mark.parametrize(
    ("later", "lost", "repeats", "slow"),
    [
        pytest.param([1.5, 0.1], 0, 2, False, id="daemons-started-a-moment-before"),
        pytest.param([1.9, 1.8, 1.7, 0.1], 0, 3, True, id="still-slow"),
        pytest.param([0.1], 12, 0, True, id="results-are-lost-already"),
    ],
)
def test_slow_node_that_lost_nothing_is_measured_again(later: list[float], lost: int, repeats: int, slow: bool) -> None:
    measured = Measured(NodeSpeed(2.0, 0.009), lost)
    measured.later = speeds(*later)
    judged = SlowNodes(DECLARED, measured, LIMIT, lambda *_: True).judge("worker0")
    assert judged is not None
    assert (judged.is_slow, measured.repeats) == (slow, repeats)


def judged_by_check(own: NodeSpeed | None) -> Expect:
    expect = Expect()

    def unreachable(*_: object) -> None:
        raise UndeterminedError("worker0 is unreachable: Connection refused")

    responds_in_time(SimpleNamespace(name="worker0"), unreachable, slow_nodes(own), expect, LIMIT)
    return expect


def test_check_reports_slow_node() -> None:
    assert judged_by_check(NodeSpeed(0.02, 0.009)).found.startswith("Python starts in 0.02 s")
    with pytest.raises(Mismatch, match="40 probes had no time left"):
        judged_by_check(NodeSpeed(2.0, 0.1))


def test_unreachable_node_is_unknown_and_not_slow() -> None:
    with pytest.raises(UndeterminedError, match="worker0 is unreachable"):
        judged_by_check(None)
