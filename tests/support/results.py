"""Results of runs, and the metrics that they are published as."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rackwright.drift.document import DriftReport
from rackwright.drift.metrics import as_text
from rackwright.report.acceptance import Acceptance, PhaseReport, PhaseState
from rackwright.report.document import Report
from rackwright.report.metrics import acceptance_metrics, verification_metrics
from rackwright.report.result import Result
from rackwright.report.verdict import Evidence, Verdict

BEGAN = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)
CANARY = "canary-5f1e"
"""A text of results, which no metric may have."""
FIGURES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("nccl", {"check": "all_reduce_is_fast", "node": "worker0", "name": "all_reduce-16", "value": 190.5, "unit": "GB/s"}),
    ("rdma", {"check": "bandwidth_of_all_pairs", "node": "worker0", "name": "rdma-write-median", "value": 380.0, "unit": "Gb/s"}),
    ("rdma", {"check": "bandwidth_of_all_pairs", "node": "worker0", "name": "rdma-write/mlx5_0", "value": 380.0, "unit": "Gb/s"}),
    ("rdma", {"check": "bandwidth_of_all_pairs", "node": "worker0", "name": "rdma-write/mlx5_0/worker1", "value": 360.0, "unit": "Gb/s"}),
    ("rdma", {"check": "latency_of_all_pairs", "node": "worker0", "name": "rdma-latency/mlx5_0", "value": 1.5, "unit": "µs"}),
    ("rdma", {"check": "latency_of_all_pairs", "node": "worker0", "name": "rdma-latency/mlx5_0/worker1", "value": 2.0, "unit": "µs"}),
)
"""Phase and measurement."""


def result(node: str, verdict: Verdict, evidence: Evidence = Evidence.REAL) -> Result:
    """Return the result of a check on a node, every text of which is the canary."""
    return Result(f"gpu.count[{node}]", "passive", node, "gpu", verdict, CANARY, evidence, CANARY, CANARY, CANARY, 0.1)


def report(*results: Result, not_run: tuple[dict[str, str], ...] = (), verdict: Verdict = Verdict.PASSED) -> Report:
    """Return a report of 12 seconds that began at BEGAN."""
    return Report("lab", "0" * 12, "smoke", BEGAN, 12.0, (), results, not_run, verdict)


def acceptance(found: Report, figures: tuple[tuple[str, dict[str, Any]], ...] = FIGURES, state: PhaseState = PhaseState.RAN) -> Acceptance:
    """Return an acceptance test with the measurements of its phases."""
    phases = tuple(
        PhaseReport(number, name, name, state, Verdict.PASSED, "", 1.0, "", (), tuple(figure for phase, figure in figures if phase == name))
        for number, name in enumerate(dict.fromkeys(phase for phase, _ in figures), 1)
    )
    return Acceptance(found, "r1", "alice", "/mnt/sharedfs/r1", phases)


def published() -> dict[str, str]:
    """Return every file of metrics by the name of its subject."""
    return {
        "verify": verification_metrics(report()),
        "drift": as_text(DriftReport("lab", "0" * 12, BEGAN, 5.0, ())),
        **acceptance_metrics(acceptance(report())),
    }
