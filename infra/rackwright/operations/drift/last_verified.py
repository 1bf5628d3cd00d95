"""Age of the verdicts that require jobs: a drift scan submits no jobs, because the cluster is in use."""

from __future__ import annotations

import contextlib
from datetime import timedelta

from rackwright.drift.document import LastVerified
from rackwright.errors import UndeterminedError
from rackwright.inventory import paths
from rackwright.report import acceptance, document
from rackwright.report.document import Report
from rackwright.report.verdict import Verdict


def last_verified(stack: str, plan: str) -> tuple[LastVerified, ...]:
    """Return the last verification of this plan that ran jobs on every node, and the last acceptance."""
    accepted: Report | None = None
    with contextlib.suppress(UndeterminedError):
        accepted = acceptance.read(paths.acceptance(stack)).report
    verified: Report | None = None
    with contextlib.suppress(UndeterminedError):
        verified = document.read(paths.report_with_jobs(stack))
    by_jobs = verified.job_verdict if verified and verified.plan == plan else None
    return (
        _last_verified("jobs on every node", verified, by_jobs),
        _last_verified("acceptance", accepted, accepted.verdict if accepted else None),
    )


def _last_verified(of: str, report: Report | None, verdict: Verdict | None) -> LastVerified:
    if report is None or verdict is None:
        return LastVerified(of)
    return LastVerified(of, verdict.value, report.started + timedelta(seconds=report.seconds))
