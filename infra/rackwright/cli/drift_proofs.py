"""How old the proofs are that only jobs can give: a look for drift runs none, because the cluster is in use."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from rackwright.catalog.checks import Kind
from rackwright.drift.document import Proof
from rackwright.errors import CouldNotTell
from rackwright.handover import paths
from rackwright.report import acceptance, store
from rackwright.report.document import Report


def proofs(stack: str) -> tuple[Proof, ...]:
    """Of jobs on every node in the last verification, and of the last acceptance."""
    verified, accepted = _verified(paths.report(stack)), _accepted(paths.acceptance(stack))
    return (_proof("jobs on every node", verified), _proof("acceptance", accepted))


def _proof(of: str, report: Report | None) -> Proof:
    if report is None:
        return Proof(of)
    return Proof(of, report.verdict.value, report.started + timedelta(seconds=report.seconds))


def _verified(file: Path) -> Report | None:
    """The last verification, where jobs were part of it."""
    try:
        report = store.read(file)
    except CouldNotTell:
        return None
    return report if any(check.kind == Kind.JOB for check in report.checks) else None


def _accepted(file: Path) -> Report | None:
    try:
        return acceptance.read(file).report
    except CouldNotTell:
        return None
