"""Detection of drift: scan a running stack, apply its ignore rules, record the result, notify, and reconcile on request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Final

from rackwright.drift import ignore_rules, notifications
from rackwright.drift.difference import Layer
from rackwright.drift.document import DriftReport
from rackwright.drift.history import DriftRecord, History, HistoryDelta, ScanRecord
from rackwright.drift.junit import as_junit
from rackwright.drift.page.document import page
from rackwright.drift.store import as_json, write
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.reader import Inventory
from rackwright.inventory.running_stack import RunningStack
from rackwright.model.drift import DriftPolicy
from rackwright.operations import tracing
from rackwright.operations.drift import host_baseline, publication, reconcile, scan
from rackwright.operations.drift.last_verified import last_verified
from rackwright.operations.monitoring.publication import publish_drift
from rackwright.report.spans import Span
from rackwright.stackfile.load import find_stack_file

_KEPT: Final = timedelta(days=400)
"""Retention of scans and resolved differences: a year and a month, so that a year can be compared with the one before."""
_SHOWN: Final = 30
"""Number of scans on the HTML page."""


@dataclass(frozen=True, slots=True)
class Detection:
    """The result of a scan, and what it changed in the history."""

    report: DriftReport
    changes: HistoryDelta
    reconciled: bool | None = None
    """Whether the reconciliation before this scan succeeded; None if there was none."""

    @property
    def exit_code(self) -> int:
        """Return 0 as declared, 1 not as declared or if a reconciliation failed, 3 undetermined."""
        return self.report.state.exit_code or int(self.reconciled is False)


def detect(stack: str, on_progress: scan.Progress, say: Callable[[str], None], *, update_baseline: bool = False) -> Detection:
    """Scan once, apply the ignore rules of the stack file, record the result and send notifications; `say` receives failures to send.

    Raises InputError if the stack is not up, its file has errors or `update_baseline` is used without a baseline; UndeterminedError at
    Ctrl-C, if another run holds the stack's lock, and before the scan if the history cannot be read.
    """
    file = find_stack_file(stack, paths.stacks())
    running = RunningStack.of(stack)
    policy = publication.policy(file)
    if update_baseline and not policy.host_baseline:
        raise InputError(
            "no baseline to replace: `drift.host_baseline` is false in the stack file",
            path="--update-baseline",
            hint="remove `host_baseline: false` from `drift` in the stack file",
        )
    history = History(paths.drift_history(stack))
    history.check()  # A scan takes minutes, and its result must not be lost.
    try:
        found, states = asyncio.run(scan.scan(running, on_progress, with_baseline=policy.host_baseline))
    except KeyboardInterrupt:
        raise UndeterminedError("interrupted: some layers were not scanned", path=f"stack {stack}") from None
    found = replace(found, last_verified=last_verified(stack, found.plan))
    if policy.host_baseline:
        found = host_baseline.compare_with_baseline(found, states, history.differences(), update=update_baseline)
    found = found.with_layers(ignore_rules.apply_ignore_rules(found.layers, _allowed(policy), date.today()))
    changes = history.record(found)
    history.prune(_KEPT, found.started)
    _write(found, running.inventory, history.scans(_SHOWN), history.differences())
    for failure in [*_publish(found, changes, policy), *asyncio.run(publish_drift(running.inventory, found))]:
        say(failure)
    return Detection(found, changes)


def detect_and_reconcile(
    stack: str, layers: Collection[Layer], on_progress: scan.Progress, say: Callable[[str], None], *, update_baseline: bool = False
) -> Detection:
    """Scan, reconcile the differences of these layers with `pulumi up`, and scan again. `say` receives the plan before it is carried out.

    Raises as `detect`.
    """
    before = detect(stack, on_progress, say, update_baseline=update_baseline)
    reconciled = reconcile.reconcile(stack, layers, before.report, say)
    return before if reconciled is None else replace(detect(stack, on_progress, say), reconciled=reconciled)


def _spans(found: DriftReport) -> Iterator[Span]:
    """Yield the scan and its layers. A layer has its duration; on a slow machine layers are scanned one after another."""
    began = found.started.timestamp()
    state = {"rackwright.drift.state": found.state.value, "rackwright.drift.differences": len(found.differences)}
    whole = Span("drift", began, began + found.seconds, state, found.state.exit_code == UndeterminedError.exit_code)
    yield whole
    for layer in found.layers:
        names = {"rackwright.drift.layer": layer.layer.value, "rackwright.drift.differences": len(layer.differences)}
        yield Span(f"scan {layer.layer.value}", began, began + layer.seconds, names, bool(layer.unknown), parent_id=whole.span_id)


def _write(found: DriftReport, declared: Inventory, scans: Sequence[ScanRecord], seen: Sequence[DriftRecord]) -> None:
    """Write the scan as JSON, as JUnit XML for CI systems, and as an HTML page."""
    write(as_json(found), paths.drift(found.stack))
    write(as_junit(found), paths.drift_junit(found.stack))
    planned = {**declared.cluster, "fabric": declared.fabric}
    nodes = {**declared.nodes, **declared.out}
    write(page(found, planned, nodes, scans, seen), paths.drift_page(found.stack))


def _publish(found: DriftReport, changes: HistoryDelta, policy: DriftPolicy) -> list[str]:
    """Write the spans and the metrics, and send the notifications; return the failures."""
    failures = [why for why in [tracing.record(found.stack, _spans(found))] if why]
    failures += publication.write_metrics(found, policy)
    message = notifications.message(found, changes, paths.drift_page(found.stack))
    return [*failures, *publication.send(message, policy)]


def _allowed(policy: DriftPolicy) -> tuple[ignore_rules.IgnoreRule, ...]:
    return tuple(ignore_rules.IgnoreRule(one.subject, one.node, one.reason, one.until) for one in policy.ignore)
