"""Outputs of sick machines with one damage each: no verdict becomes passed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from support.damage import damages

from rackwright.catalog.reference_values import Quantity
from rackwright.checks.acceptance.evaluators import collectives
from rackwright.checks.acceptance.evaluators.pairs import PairResult, pairs
from rackwright.checks.acceptance.evaluators.speed import impossible
from rackwright.checks.acceptance.evaluators.topology import gpus_connected
from rackwright.checks.acceptance.parsers import hpcc, nccl, nvidia_smi, perftest
from rackwright.checks.acceptance.phase import Finding
from rackwright.checks.acceptance.phases import hpcc as hpcc_phase
from rackwright.errors import UndeterminedError
from rackwright.report.verdict import Verdict

from .played import FAILED, text
from .test_judges import ONE, TWO


def _rdma(said: str) -> list[Finding]:
    value = perftest.parse_bandwidth(said).average_gbit_s
    if impossible(Quantity.RDMA_WRITE, value, "ndr", 2):
        raise UndeterminedError("impossible")
    met = [PairResult("a", "b", "mlx5_0", value), PairResult("a", "c", "mlx5_0", 392.0), PairResult("b", "c", "mlx5_0", 392.0)]
    return pairs("bandwidth_of_all_pairs", Quantity.RDMA_WRITE, ["b"], met, collectives.threshold(Quantity.RDMA_WRITE, "ndr", 2))


def _hpcc(said: str) -> list[Finding]:
    return [hpcc_phase._right("worker0", partial(hpcc.parse, said))]


def _topology(said: str) -> list[Finding]:
    return [gpus_connected("gpus_are_connected", "worker0", nvidia_smi.parse_topology(said), 8)]


RESIDUAL = text("hpcc", "good").replace("...... PASSED", "...... FAILED").replace("Success=1", "Success=0")
CASES: dict[str, tuple[str, Callable[[str], list[Finding]]]] = {
    "wrong results": (text("nccl", "wrong-1-node"), lambda said: collectives.results("r", nccl.parse(said), ONE)),
    "sockets": (text("nccl", "sockets-2-nodes"), lambda said: collectives.transport("t", nccl.parse(said), TWO)),
    "shared memory": (text("nccl", "slow-1-node"), lambda said: collectives.transport("t", nccl.parse(said), ONE)),
    "host memory": (text("nccl", "host-memory-2-nodes"), lambda said: collectives.gpudirect("g", nccl.parse(said), TWO)),
    "slow link": (text("perftest", "slow-bw"), _rdma),
    "residual": (RESIDUAL, _hpcc),
    "links that are down": (text("topo", "slow"), _topology),
}


@pytest.mark.parametrize("case", CASES)
def test_fault_never_passes_through_damage(case: str) -> None:
    said, judge = CASES[case]
    assert {each.verdict for each in judge(said)} == {FAILED}
    for damaged in damages(said, most=60):
        try:
            found = {each.verdict for each in judge(damaged.text)}
        except UndeterminedError:
            continue
        assert Verdict.PASSED not in found, damaged.what
