"""Verification of a running stack: run the checks, and read the last verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rackwright.catalog.checks import Level
from rackwright.drivers import power
from rackwright.drivers.check_runner import Progress, RunOutcome, run_checks
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.reader import load
from rackwright.inventory.running_stack import not_up, require_up
from rackwright.operations.monitoring.publication import publish_verification
from rackwright.report import document
from rackwright.report.document import Report


@dataclass(frozen=True, slots=True)
class RecordedReport:
    """A report and the JSON text that it was read from."""

    report: Report
    text: str
    plan_changed: bool = False
    """Whether the stack has another plan than the report, or an inventory that cannot be read."""


def verify(stack: str, level: Level, nodes: Sequence[str], on_progress: Progress, say: Callable[[str], None]) -> RecordedReport:
    """Run the checks of a level and return their report. Without `nodes` all nodes are checked, and the verdict is recorded.

    `say` receives why the results could not be written as metrics, which does not change the verdict.

    Raises InputError if the stack is not up or a node is unknown, UndeterminedError at Ctrl-C and if the checks write no report.
    """
    require_up(stack)
    try:
        outcome = asyncio.run(_run_checks(stack, level, nodes, on_progress))
    except KeyboardInterrupt:
        raise UndeterminedError("interrupted: checks that did not run are recorded as unknown", path=f"stack {stack}") from None
    output = outcome.stderr.strip() or "none"
    if outcome.status == InputError.exit_code:
        raise InputError(output)
    if not outcome.report.exists():
        raise UndeterminedError(f"the checks wrote no report; output: {output}", path=f"stack {stack}")
    found = _read(outcome.report)
    for failure in asyncio.run(publish_verification(paths.inventory(stack), found.report)):
        say(failure)
    return found


async def _run_checks(stack: str, level: Level, nodes: Sequence[str], on_progress: Progress) -> RunOutcome:
    """Run the checks while the nodes are powered on."""
    inventory = paths.inventory(stack)
    async with power.wake_nodes(stack, power.from_inventory(inventory, nodes), on_progress):
        return await run_checks(
            inventory=inventory,
            ssh_config=paths.ssh_config(stack),
            results=paths.results(stack),
            level=level.value,
            nodes=nodes,
            on_progress=on_progress,
        )


def last_report(stack: str) -> RecordedReport:
    """Return the report of the last verification, or of a later refresh that did not pass.

    Raises InputError if the stack is not up, UndeterminedError if no report is recorded or the report cannot be read.
    """
    if not paths.folder(stack).is_dir():
        raise not_up(stack)
    verified = _read(paths.report(stack))
    last = _later_and_worse(stack, verified.report) or verified
    return RecordedReport(last.report, last.text, _plan_changed(stack, last.report))


def _later_and_worse(stack: str, report: Report) -> RecordedReport | None:
    """Return the report of a refresh that is newer than the verdict and did not pass, or None."""
    try:
        later = _read(paths.refresh_report(stack))
    except UndeterminedError:
        return None
    return later if later.report.started > report.started and later.report.verdict.exit_code else None


def _plan_changed(stack: str, report: Report) -> bool:
    try:
        return load(paths.inventory(stack)).plan != report.plan
    except RackwrightError:
        return True


def _read(file: Path) -> RecordedReport:
    return RecordedReport(document.read(file), file.read_text(encoding="utf-8"))
