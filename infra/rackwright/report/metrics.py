"""Results of runs as metrics of Prometheus: counts, times and measured speeds. No text of a result is part of them, so no secret can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from rackwright.catalog.reference_values import Quantity, Unit
from rackwright.report.acceptance import Acceptance, PhaseReport, PhaseState
from rackwright.report.chaos import EventRecord
from rackwright.report.document import Report
from rackwright.report.verdict import Evidence, Verdict

OUTCOMES: Final = (Verdict.PASSED, Verdict.FAILED, Verdict.SKIPPED, Verdict.UNKNOWN)
_FAST: Final = "_is_fast"
"""End of the names of checks that measure a collective (checks/acceptance/phases/nccl.py)."""
_PAIRS: Final[Mapping[str, tuple[str, str, Unit, float]]] = {
    Quantity.RDMA_WRITE.value: ("bandwidth_bytes_per_second", "Bandwidth of RDMA writes", Unit.GB_S, 1e9),
    Quantity.RDMA_LATENCY.value: ("latency_seconds", "Latency of RDMA writes", Unit.MILLISECONDS, 1e-3),
}
"""By measured quantity: name and help of its metrics, and a unit with its factor to the base unit."""


class Exposition:
    """Gauges of one stack, named `rackwright_<subject>_<name>`."""

    def __init__(self, subject: str, stack: str) -> None:
        self._subject, self._stack = subject, stack
        self._registry = CollectorRegistry()
        self._gauges: dict[str, Gauge] = {}

    def set(self, name: str, described: str, value: float, **labels: str) -> None:
        """Set the value of one series."""
        if name not in self._gauges:
            full = f"rackwright_{self._subject}_{name}"
            self._gauges[name] = Gauge(full, described, ("stack", *labels), registry=self._registry)
        self._gauges[name].labels(self._stack, *labels.values()).set(value)

    def add_run(self, report: Report) -> None:
        """Set when the run ended and how long it took."""
        ended = report.started.timestamp() + report.seconds
        self.set("last_completion_timestamp_seconds", "Time at which the last run finished; subtract it from time() for its age", ended)
        self.set("duration_seconds", "Duration of the last run", report.seconds)

    def text(self) -> str:
        """Return the text format of Prometheus."""
        return generate_latest(self._registry).decode()


def verification_metrics(report: Report) -> str:
    """Return the metrics of a verification of all nodes."""
    found = Exposition("verify", report.stack)
    _add_results(found, report)
    return found.text()


def acceptance_metrics(acceptance: Acceptance) -> dict[str, str]:
    """Return the metrics of an acceptance test by the name of their file.

    A run of selected phases has no verdict on the cluster, so that only what it measured is there.
    A phase that measured nothing has no file.
    """
    report, files = acceptance.report, dict[str, str]()
    if not report.partial:
        found = Exposition("acceptance", report.stack)
        _add_results(found, report)
        files["acceptance"] = found.text()
    phases = {phase.name: phase for phase in acceptance.phases if phase.state is PhaseState.RAN and phase.measurements}
    if "nccl" in phases:
        files["nccl"] = _collectives(report, phases["nccl"])
    if "rdma" in phases:
        files["rdma"] = _pairs(report, phases["rdma"])
    return files


def chaos_metrics(stack: str, events: Sequence[EventRecord]) -> str:
    """Return the metrics of the failures that a run has injected so far. A failure that is not undone has a series of its own."""
    found, done = Exposition("chaos", stack), [one for one in events if one.injected is not None]
    for one in done:
        if one.undone is None:
            found.set("failure", "1 while an injected failure is in place", 1, event=one.id, mode=one.mode, node=one.node)
    for (mode, verdict), count in Counter((one.mode, one.verdict.value) for one in done).items():
        found.set("failures", "Number of injected failures of the last run", count, mode=mode, verdict=verdict)
    last = max((one.injected or 0.0 for one in done), default=0.0)
    found.set("last_injection_timestamp_seconds", "Time at which the last failure was injected; 0 before the first", last)
    return found.text()


def _add_results(found: Exposition, report: Report) -> None:
    """Count every outcome, 0 included: an alert has a series to read after each run."""
    counted = [(check.verdict, check.evidence) for check in report.checks]
    for outcome in OUTCOMES:
        for evidence in Evidence:
            count = counted.count((outcome, evidence))
            found.set("results", "Number of results of the last run", count, outcome=outcome.value, evidence=evidence.value)
    found.set("info", "1; plan and level of the last run", 1, plan=report.plan, level=report.level)
    for verdict in (Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN):
        found.set("verdict", "1 for the verdict of the last run, 0 for the others", report.verdict is verdict, verdict=verdict.value)
    found.add_run(report)


def _collectives(report: Report, phase: PhaseReport) -> str:
    found = Exposition("nccl", report.stack)
    for figure in phase.measurements:
        operation, is_fast, _ = str(figure["check"]).partition(_FAST)
        ranks = str(figure["name"]).rpartition("-")[2]
        if is_fast and ranks.isdecimal():
            speed = Unit(figure["unit"]).to(Unit.GB_S, figure["value"]) * 1e9
            described = "Bus bandwidth of a collective at its largest message, by the node that took part and the number of GPUs"
            found.set("busbw_bytes_per_second", described, speed, node=str(figure["node"]), operation=operation, ranks=ranks)
    found.add_run(report)
    return found.text()


def _pairs(report: Report, phase: PhaseReport) -> str:
    found = Exposition("rdma", report.stack)
    for node, quantity, (rail, *peer), figure in _of_rails(phase):
        name, described, unit, factor = _PAIRS[quantity]
        value = Unit(figure["unit"]).to(unit, figure["value"]) * factor
        if peer:
            found.set(f"worst_{name}", f"{described} to the slowest partner of a node on a rail", value, node=node, rail=rail, peer=peer[0])
        else:
            found.set(f"median_{name}", f"{described} between a node and its partners on a rail, median", value, node=node, rail=rail)
    found.add_run(report)
    return found.text()


def _of_rails(phase: PhaseReport) -> Iterator[tuple[str, str, list[str], Mapping[str, Any]]]:
    """Yield node, quantity, rail with the partner or without, and the measurement `quantity/rail` or `quantity/rail/partner`."""
    for figure in phase.measurements:
        quantity, *place = str(figure["name"]).split("/")
        if quantity in _PAIRS and place:
            yield str(figure["node"]), quantity, place, figure
