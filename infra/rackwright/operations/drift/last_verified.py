"""Age of the verdicts that require jobs: a drift scan submits no jobs, because the cluster is in use."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from rackwright.drift.document import LastVerified
from rackwright.errors import UndeterminedError
from rackwright.inventory import paths
from rackwright.report import acceptance, store
from rackwright.report.document import Report
from rackwright.report.verdict import Verdict


def last_verified(stack: str, plan: str) -> tuple[LastVerified, ...]:
    """Return the last verification of this plan that ran jobs on every node, and the last acceptance."""
    verified, accepted = _verified(paths.report_with_jobs(stack), plan), _accepted(paths.acceptance(stack))
    by_jobs = verified.job_verdict if verified else None
    return (
        _last_verified("jobs on every node", verified, by_jobs),
        _last_verified("acceptance", accepted, accepted.verdict if accepted else None),
    )


def _last_verified(of: str, report: Report | None, verdict: Verdict | None) -> LastVerified:
    if report is None or verdict is None:
        return LastVerified(of)
    return LastVerified(of, verdict.value, report.started + timedelta(seconds=report.seconds))


def _verified(file: Path, plan: str) -> Report | None:
    """Return the last verification with jobs, or None if there is none or it verified another plan."""
    try:
        report = store.read(file)
    except UndeterminedError:
        return None
    return report if report.plan == plan else None


def _accepted(file: Path) -> Report | None:
    try:
        return acceptance.read(file).report
    except UndeterminedError:
        return None
