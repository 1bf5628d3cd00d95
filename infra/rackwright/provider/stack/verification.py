"""Verification: the checks run against the hosts at the stack's level, and the passive ones again on refresh."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

from rackwright.drivers import node_health
from rackwright.drivers.check_runner import run_checks
from rackwright.drivers.power import from_inventory, wake_nodes
from rackwright.drivers.supervision import INTERRUPTED, current
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.operations import stack_files, tracing
from rackwright.operations.monitoring.publication import publish_verification
from rackwright.provider.protocol.diff import DiffResult, PropertyDiffKind
from rackwright.provider.protocol.property_values import UNKNOWN, Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource, refreshes_resources_only
from rackwright.provider.stack.node_causes import causes_of_silent_nodes
from rackwright.report.document import report_from_dict
from rackwright.report.spans import Span
from rackwright.unknown_reasons import shared_reasons

_PASSED: Final = "passed"
_SHOWN: Final = 12
"""Reasons listed one by one; the report has the rest."""


class Verification(Resource):
    """Inputs: level, generation (of Converge), digests, options, network_revision (of targets whose network is a resource).

    Outputs: verdict, totals, finished, run (new with every run).
    """

    token: ClassVar[str] = "rackwright:test:Verification"
    required: ClassVar[tuple[str, ...]] = ("level", "generation", "digests")

    def diff(self, state: RecordedState, news: Properties) -> DiffResult:
        """Return changed inputs, or a recorded verdict other than passed."""
        found = super().diff(state, news)
        return found if state.outputs.get("verdict") == _PASSED else found.with_change("verdict", PropertyDiffKind.UPDATE)

    def preview_outputs(self, news: Properties) -> Properties:
        """Return the inputs; every result is unknown until the checks have run."""
        return {**news, "verdict": UNKNOWN, "reasons": UNKNOWN, "totals": UNKNOWN, "finished": UNKNOWN, "run": UNKNOWN}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Run the checks of the level."""
        return await self._verify(operation, news)

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Run the checks of the level again."""
        return await self._verify(operation, news)

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource:
        """Run the passive checks. A refresh of resources only keeps the recorded verdict."""
        if refreshes_resources_only(state.inputs):
            return LiveResource(state.id, state.outputs, init_errors=tuple(state.outputs.get("reasons", [])))
        try:
            report = await _run(operation, "checks", paths.refresh_results(operation.stack))
        except InputError as error:
            return LiveResource(state.id, {**state.outputs, "verdict": "unknown", "reasons": [str(error)]}, init_errors=(str(error),))
        if report["verdict"] == _PASSED and state.outputs.get("verdict") == _PASSED:
            return LiveResource(state.id, state.outputs)
        reasons = _reasons(report) or list(state.outputs.get("reasons", []))
        outputs = {**state.outputs, "verdict": report["verdict"] if report["verdict"] != _PASSED else "unknown", "reasons": reasons}
        return LiveResource(state.id, outputs, init_errors=tuple(reasons))

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Invalidate the report: its nodes are being deleted."""
        stack_files.invalidate_report(operation.stack)

    async def _verify(self, operation: RequestContext, news: Properties) -> LiveResource:
        began = time.time()
        if drained := await node_health.drained_nodes(operation.stack, paths.inventory(operation.stack)):
            await operation.status(f"checking again: {', '.join(drained)}, which drained themselves")
            await node_health.check_again(operation.stack, drained)
        report = await _run(operation, news["level"], paths.results(operation.stack))
        if why := tracing.record(operation.stack, _spans(began, report)):
            await operation.warn(why)
        if not current.cancelled:
            for failure in await publish_verification(paths.inventory(operation.stack), report_from_dict(report)):
                await operation.warn(failure)
        silent = [] if current.cancelled else await causes_of_silent_nodes(operation.stack, report)
        reasons = [INTERRUPTED] if current.cancelled else [*silent, *_reasons(report)]
        outputs = {
            **news,
            "verdict": report["verdict"],
            "reasons": reasons,
            "totals": report["totals"],
            "finished": report["started"],
            "run": uuid.uuid4().hex,
        }
        return LiveResource(operation.name, outputs, init_errors=tuple(reasons))


def _spans(began: float, report: dict[str, Any]) -> Iterator[Span]:
    """Yield the verification as a span."""
    totals = {f"rackwright.checks_{verdict}": count for verdict, count in report["totals"].items()}
    names = {"rackwright.level": report["level"], "rackwright.verdict": report["verdict"], **totals}
    yield Span("verify", began, time.time(), names, report["verdict"] != _PASSED)


async def _run(operation: RequestContext, level: str, results: Path) -> dict[str, Any]:
    """Run the checks on running nodes and return their report. Raise InputError if they refuse the inventory."""
    inventory = paths.inventory(operation.stack)
    async with wake_nodes(operation.stack, from_inventory(inventory), operation.status):
        outcome = await run_checks(
            inventory=inventory,
            ssh_config=paths.ssh_config(operation.stack),
            results=results,
            level=level,
            on_progress=operation.status,
        )
    if outcome.status == InputError.exit_code:
        raise InputError(outcome.stderr.strip())
    if not outcome.report.exists():
        raise UndeterminedError(f"the checks wrote no report; their output: {outcome.stderr.strip() or 'nothing'}")
    report: dict[str, Any] = json.loads(outcome.report.read_text())
    return report


def _reasons(report: dict[str, Any]) -> list[str]:
    """Return one line per problem: unreachable nodes, then failed checks, then unknown ones."""
    bad = [check for verdict in ("failed", "unknown") for check in report["checks"] if check["verdict"] == verdict]
    alike = shared_reasons((check["node"], check["reason"]) for check in bad if check["verdict"] == "unknown")
    lines = [f"{node}: {count} checks unknown: {reason}" for (node, reason), count in alike.items()]
    single = [_reason(check) for check in bad if (check["node"], check["reason"]) not in alike]
    lines += single[:_SHOWN]
    if len(single) > _SHOWN:
        lines.append(f"and {len(single) - _SHOWN} more: `rackwright status {report['stack']}` lists all")
    if not lines and report["verdict"] != _PASSED:
        lines.append(f"the verdict is {report['verdict']}")
    return lines


def _reason(check: dict[str, Any]) -> str:
    told = check["reason"] or f"expected {check['expected']}, found {check['found']}"
    return f"{check['id']} {check['verdict']}: {told}"
