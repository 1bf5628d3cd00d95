"""Verdicts on numbers: published false passes must fail here, and what was not measured is unknown."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
from itertools import combinations
from pathlib import Path

import pytest

from rackwright.catalog.reference_values import Quantity
from rackwright.catalog.thresholds import threshold
from rackwright.checks.acceptance.evaluators import collectives, monitoring, pairs, scaling, speed
from rackwright.checks.acceptance.evaluators.collectives import ExpectedTopology
from rackwright.checks.acceptance.evaluators.pairs import PairResult, tournament
from rackwright.checks.acceptance.parsers import nccl
from rackwright.checks.acceptance.parsers.nccl_log import Transport
from rackwright.errors import UndeterminedError
from rackwright.report.verdict import Verdict

CAPTURED = Path(__file__).with_name("captured")
PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
ONE = ExpectedTopology(("worker0",), 8, "h100", Transport.INFINIBAND, "ndr", 8, nvls=True)
TWO = ExpectedTopology(("worker0", "worker1"), 8, "h100", Transport.INFINIBAND, "ndr", 8, nvls=True)
EFA = ExpectedTopology(("worker0", "worker1"), 8, "h100", Transport.LIBFABRIC, nics=32, instance="p5.48xlarge")


def run(name: str) -> nccl.Run:
    """Return a captured run."""
    return nccl.parse((CAPTURED / "nccl" / f"{name}.txt").read_text(encoding="utf-8"))


def verdicts(findings: list) -> set[Verdict]:
    """Return the set of verdicts."""
    return {each.verdict for each in findings}


def test_16_gpus_slower_than_8_fail() -> None:
    """The table of the founding guide: 331,842 to 136,970 tokens/s, marked PASS."""
    found = scaling.scaling("training_scales", "worker0", {8: 331_842, 16: 136_970}, "tokens/s")
    assert found.verdict is FAILED
    assert "16 GPUs do 136,970 tokens/s where 8 do 331,842: 21% of linear and less than they do" in found.reason
    assert scaling.scaling("training_scales", "worker0", {8: 331_842, 16: 650_000}, "tokens/s").verdict is PASSED
    assert scaling.scaling("training_scales", "worker0", {8: 331_842, 16: 400_000}, "tokens/s").verdict is FAILED
    assert scaling.scaling("training_scales", "worker0", {8: 331_842}, "tokens/s").verdict is UNKNOWN
    assert scaling.scaling("training_scales", "worker0", {8: 0, 16: 0}, "tokens/s").verdict is UNKNOWN


def test_174_gb_s_on_eight_h100_fails() -> None:
    """The all-reduce of the founding walkthrough: a third of what NVLink gives."""
    (found,) = collectives.bandwidth("bandwidth", Quantity.ALL_REDUCE, run("slow-1-node"), ONE)
    assert found.verdict is FAILED and "174 GB/s" in found.reason and "432 GB/s" in found.reason
    assert "NVLink SHARP is not available" in found.reason
    (found,) = collectives.transport("transport", run("slow-1-node"), ONE)
    assert found.verdict is FAILED and "SHM" in found.reason


def test_monitoring_with_only_metadata_is_unknown() -> None:
    """The founding walkthrough accepts such a run."""
    with pytest.raises(UndeterminedError, match="monitoring did not run"):
        monitoring.parse([])
    with pytest.raises(UndeterminedError):
        monitoring.parse([{"second": 0}] * 5)


def test_monitoring_reports_active_gpus_and_rails() -> None:
    """One GPU has no work, one rail no traffic."""
    records = [
        {"second": n, "cpu_busy": 0.2, "gpu_busy": [99, 99 if n else 0], "sent_bytes": {"mlx5_0": 10**9 * n, "mlx5_1": 7}} for n in range(4)
    ]
    samples = monitoring.parse(records)
    assert monitoring.gpus_worked("monitored", "worker0", samples, 2).verdict is PASSED
    assert monitoring.gpus_worked("monitored", "worker0", samples, 3).verdict is FAILED
    assert monitoring.rails_carried("rails", "worker0", samples, ["mlx5_0"]).verdict is PASSED
    found = monitoring.rails_carried("rails", "worker0", samples, ["mlx5_0", "mlx5_1"])
    assert found.verdict is FAILED and "not mlx5_1" in found.reason
    assert monitoring.rails_carried("rails", "worker0", samples, ["mlx5_7"]).verdict is UNKNOWN
    blind = monitoring.parse([{**record, "gpu_busy": []} for record in records])
    assert monitoring.gpus_worked("monitored", "worker0", blind, 2).verdict is UNKNOWN


@pytest.mark.parametrize(
    ("name", "wanted", "results", "transport", "gpudirect", "bandwidth"),
    [
        ("good-1-node", ONE, PASSED, PASSED, UNKNOWN, PASSED),
        ("ring-1-node", ONE, PASSED, PASSED, UNKNOWN, FAILED),
        ("good-2-nodes", TWO, PASSED, PASSED, PASSED, PASSED),
        ("sockets-2-nodes", TWO, PASSED, FAILED, UNKNOWN, PASSED),
        ("host-memory-2-nodes", TWO, PASSED, PASSED, FAILED, PASSED),
        ("good-2-nodes-efa", EFA, PASSED, PASSED, PASSED, PASSED),
        ("good-2-nodes", EFA, PASSED, FAILED, PASSED, FAILED),
        ("wrong-1-node", ONE, FAILED, PASSED, UNKNOWN, PASSED),
        ("unchecked-1-node", ONE, UNKNOWN, PASSED, UNKNOWN, PASSED),
        ("silent-2-nodes", TWO, PASSED, UNKNOWN, UNKNOWN, PASSED),
        ("good-1-node", TWO, UNKNOWN, UNKNOWN, UNKNOWN, PASSED),
    ],
)
def test_nccl_run_is_judged_beyond_bandwidth(
    name: str, wanted: ExpectedTopology, results: Verdict, transport: Verdict, gpudirect: Verdict, bandwidth: Verdict
) -> None:
    """Sockets fail at any bandwidth; a wrong byte fails at any speed."""
    found = run(name)
    assert results in verdicts(collectives.results("results", found, wanted))
    assert transport in verdicts(collectives.transport("transport", found, wanted))
    assert gpudirect in verdicts(collectives.gpudirect("gpudirect", found, wanted))
    findings = collectives.bandwidth("bandwidth", Quantity.ALL_REDUCE, found, wanted)
    assert verdicts(findings) == {bandwidth}
    assert [each.node for each in findings] == list(wanted.nodes)
    assert all(each.measurements[0].value == pytest.approx(found.largest.busbw_gb_s) for each in findings)


def test_nic_share_limits_only_ring_collectives() -> None:
    """An alltoall of 16 GPUs reaches a fraction of it on a healthy fabric."""
    for quantity, words in ((Quantity.ALL_GATHER, "busbw-per-nic.ndr"), (Quantity.ALLTOALL, "no published figure exists")):
        found = collectives.bandwidth("bandwidth", quantity, run("good-2-nodes"), TWO)
        assert all(words in each.expected for each in found)


def test_figures_of_eight_gpus_limit_no_other_number() -> None:
    """Four H100 reach less on a healthy node; one GPU does not use eight NICs."""
    slow = run("slow-1-node")
    four = dataclasses.replace(ONE, gpus_per_node=4)
    assert verdicts(collectives.bandwidth("bandwidth", Quantity.ALL_REDUCE, slow, ONE)) == {FAILED}
    (found,) = collectives.bandwidth("bandwidth", Quantity.ALL_REDUCE, slow, four)
    assert (found.verdict, "no published figure exists" in found.expected) == (PASSED, True)
    (found,) = collectives.bandwidth("bandwidth", Quantity.ALL_REDUCE, slow, four, {"worker0": 340.0})
    assert found.verdict is FAILED and "its own baseline" in found.reason
    for gpus, expected in ((1, PASSED), (8, FAILED)):
        few = dataclasses.replace(TWO, gpus_per_node=gpus)
        bandwidth = dataclasses.replace(run("good-2-nodes"), rows=(nccl.Row(2**34, 47.5, 0),))
        assert verdicts(collectives.bandwidth("bandwidth", Quantity.ALL_REDUCE, bandwidth, few)) == {expected}


def test_small_messages_prove_no_bandwidth() -> None:
    """256 MB is too small."""
    whole = run("good-1-node")
    small = dataclasses.replace(whole, rows=tuple(row for row in whole.rows if row.size_bytes <= 2**28))
    assert verdicts(collectives.bandwidth("bandwidth", Quantity.ALL_REDUCE, small, ONE)) == {UNKNOWN}


def test_slow_gpu_is_named_against_peers() -> None:
    """Without a published figure the peers decide; two peers are not enough."""
    values = {"worker0": 402.0, "worker1": 399.0, "worker2": 351.0, "worker3": 401.0}
    found = {each.node: each for each in speed.speed("triad", Quantity.MEMORY_COPY, values, hardware=dict.fromkeys(values, "epyc"))}
    assert [node for node, each in found.items() if each.verdict is FAILED] == ["worker2"]
    assert "median of 4 peers" in found["worker2"].reason
    two = {"worker0": 402.0, "worker1": 351.0}
    assert verdicts(speed.speed("triad", Quantity.MEMORY_COPY, two, hardware=dict.fromkeys(two, "epyc"))) == {PASSED}
    mixed = {**dict.fromkeys(values, "epyc"), "worker2": "xeon"}
    assert verdicts(speed.speed("triad", Quantity.MEMORY_COPY, values, hardware=mixed)) == {PASSED}


def test_baseline_allows_five_per_cent() -> None:
    """From the first passed run on: a latency must not grow, a bandwidth not shrink."""

    def verdict(quantity: Quantity, value: float, before: float) -> Verdict:
        return speed.speed("x", quantity, {"worker0": value}, hardware={}, baseline={"worker0": before})[0].verdict

    assert verdict(Quantity.MEMORY_COPY, 96, 100) is PASSED and verdict(Quantity.MEMORY_COPY, 94, 100) is FAILED
    assert verdict(Quantity.STORAGE_FSYNC, 4.0, 5.0) is PASSED and verdict(Quantity.STORAGE_FSYNC, 50.0, 5.0) is FAILED


def test_value_above_specification_is_no_measurement() -> None:
    """1,050 TFLOPS on an H100: the clock was stopped too early."""
    for value in (1050.0, 0.0, float("inf"), float("nan")):
        assert speed.speed("x", Quantity.MATMUL_BF16, {"worker0": value}, hardware={"worker0": "h100"})[0].verdict is UNKNOWN
    assert speed.speed("x", Quantity.MATMUL_BF16, {"worker0": 730.97}, hardware={"worker0": "h100"})[0].verdict is PASSED


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 17])
def test_tournament_pairs_every_two_nodes_once(count: int) -> None:
    """No node is twice in a round."""
    nodes = [f"worker{number}" for number in range(count)]
    rounds = tournament(nodes)
    pairs_met = [frozenset(pair) for each in rounds for pair in each]
    assert sorted(map(sorted, pairs_met)) == sorted(map(sorted, combinations(nodes, 2)))
    for each in rounds:
        assert len({node for pair in each for node in pair}) == 2 * len(each)
    assert len(rounds) == count - 1 + count % 2


def _all_meet(slow: dict[tuple[str, str], float], nodes: int = 4, rail: str = "mlx5_3") -> list[PairResult]:
    names = [f"worker{number}" for number in range(nodes)]
    return [PairResult(one, other, rail, slow.get((one, other), 392.0)) for one, other in combinations(names, 2)]


def _failed(meetings: list[PairResult], nodes: int = 4) -> list[str]:
    names = [f"worker{number}" for number in range(nodes)]
    found = pairs.pairs("bandwidth", Quantity.RDMA_WRITE, names, meetings, threshold(Quantity.RDMA_WRITE, "ndr", 2))
    return [each.node for each in found if each.verdict is FAILED]


def test_node_with_only_slow_links_is_named() -> None:
    """Its partners are not named."""
    assert _failed(_all_meet({})) == []
    assert _failed(_all_meet({("worker0", "worker2"): 196.0, ("worker1", "worker2"): 196.0, ("worker2", "worker3"): 196.0})) == ["worker2"]
    assert _failed(_all_meet({("worker0", "worker2"): 196.0})) == ["worker0", "worker2"]
    assert _failed([PairResult("worker0", "worker1", "mlx5_0", 196.0)], 2) == ["worker0", "worker1"]


def test_missing_measurement_is_unknown_for_both_nodes() -> None:
    """The speed of the other measurements does not matter."""
    meetings = [*_all_meet({}), PairResult("worker0", "worker1", "mlx5_4", None, "Couldn't connect to worker1:18515")]
    found = pairs.pairs("bandwidth", Quantity.RDMA_WRITE, ["worker0", "worker2", "worker9"], meetings, None)
    assert [each.verdict for each in found] == [UNKNOWN, PASSED, UNKNOWN]
    assert "worker1 on mlx5_4: Couldn't connect" in found[0].reason


def test_excessive_latency_is_named() -> None:
    """It misses the threshold, and the median of its rail."""
    limit = threshold(Quantity.RDMA_LATENCY, "ndr", 2)
    slow = [
        PairResult("worker0", "worker1", "mlx5_0", 6.84),
        PairResult("worker1", "worker2", "mlx5_0", 1.9),
        PairResult("worker0", "worker2", "mlx5_0", 1.9),
    ]
    found = pairs.pairs("latency", Quantity.RDMA_LATENCY, ["worker0", "worker2"], slow, limit)
    assert [each.verdict for each in found] == [FAILED, PASSED]
    assert "worker1 on mlx5_0 6.84 µs" in found[0].reason


def test_docstring_examples_hold() -> None:
    """Run the `>>>` lines of judges."""
    for name in ("speed", "scaling", "pairs"):
        assert not doctest.testmod(importlib.import_module(f"rackwright.checks.acceptance.evaluators.{name}")).failed, name
