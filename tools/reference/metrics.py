"""docs/reference/metrics.md: the Prometheus metrics of results, read from the exposition of empty ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from rackwright.drift.document import DriftReport
from rackwright.drift.metrics import as_text
from rackwright.operations.chaos.modes import Mode
from rackwright.report.acceptance import Acceptance, PhaseReport, PhaseState
from rackwright.report.chaos import EventRecord
from rackwright.report.document import Report
from rackwright.report.metrics import acceptance_metrics, chaos_metrics, verification_metrics
from rackwright.report.verdict import Verdict
from reference.markdown import cell, head, table

_TEXT: Final = """Commands write these metrics after each run, and `chaos` at each failure, to a node of the cluster, where the stack
declares `monitoring`: [monitoring](../monitoring.md#results). A drift scan also writes its own to the file that the stack file names
in `drift`: [drift](../drift.md). Every series of a run exists after it, with 0 if nothing was found, so that an alert always has data;
measured speeds exist where a phase measured them. `stack` is the name of the stack.
"""
_BEGAN: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MEASURED: Final = (
    ("nccl", "all_reduce_is_fast", "all_reduce-16", "GB/s"),
    ("rdma", "bandwidth_of_all_pairs", "rdma-write/RAIL", "Gb/s"),
    ("rdma", "bandwidth_of_all_pairs", "rdma-write/RAIL/NODE", "Gb/s"),
    ("rdma", "latency_of_all_pairs", "rdma-latency/RAIL", "µs"),
    ("rdma", "latency_of_all_pairs", "rdma-latency/RAIL/NODE", "µs"),
)
"""Phase, check, name and unit of one measurement for each metric."""
_JUDGED: Final = (Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN)
"""Verdicts of a failure that was injected."""
_FREE: Final = frozenset({"stack", "event", "node", "rail", "peer", "plan", "level", "operation", "ranks"})
"""Labels whose values depend on the stack and the run."""


def page() -> str:
    """Return the whole page."""
    lines = [head("Metrics", "the exposition of results", _TEXT)]
    for command, text in _expositions().items():
        metrics = list(text_string_to_metric_families(text))
        lines += [f"## {command}", "", *table(("metric", "type", "labels", "meaning"), (_row(metric) for metric in metrics))]
        values = [row for metric in metrics for row in _values(metric)]
        lines += table(("metric", "label", "values"), values) if values else []
    return "\n".join(lines)


def _expositions() -> Mapping[str, str]:
    """Return the metrics of an empty run by the title of their section."""
    report = Report("STACK", "", "", _BEGAN, 0.0, (), (), (), Verdict.UNKNOWN)
    phases = tuple(PhaseReport(1, name, "", PhaseState.RAN, None, "", 0.0, "", (), tuple(_measured(name))) for name in ("nccl", "rdma"))
    accepted = acceptance_metrics(Acceptance(report, "", "", "", phases))
    return {
        "Verification": verification_metrics(report),
        "Drift scan": as_text(DriftReport("STACK", "", _BEGAN, 0.0, ())),
        "Acceptance test": accepted["acceptance"],
        "Acceptance test, phase nccl": accepted["nccl"],
        "Acceptance test, phase rdma": accepted["rdma"],
        "Injected failures": chaos_metrics("STACK", [_event(mode, verdict) for mode in Mode for verdict in _JUDGED]),
    }


def _event(mode: Mode, verdict: Verdict) -> EventRecord:
    return EventRecord("EVENT", 1, 0, mode.value, "NODE", 0.0, injected=0.0, verdict=verdict)


def _measured(phase: str) -> Iterator[dict[str, str | float]]:
    for of, check, name, unit in _MEASURED:
        if of == phase:
            yield {"check": check, "node": "NODE", "name": name, "value": 0.0, "unit": unit}


def _row(metric: Metric) -> tuple[str, str, str, str]:
    return f"`{metric.name}`", metric.type, ", ".join(f"`{label}`" for label in metric.samples[0].labels), cell(metric.documentation)


def _values(metric: Metric) -> Iterator[tuple[str, str, str]]:
    for label in metric.samples[0].labels:
        if label not in _FREE:
            values = dict.fromkeys(sample.labels[label] for sample in metric.samples)
            yield f"`{metric.name}`", f"`{label}`", ", ".join(f"`{value}`" for value in values)
