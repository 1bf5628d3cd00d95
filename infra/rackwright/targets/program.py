"""What the program does before its first resource: stack file to plan, or all findings at once."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import pulumi

from rackwright import rules
from rackwright.handover import paths
from rackwright.model import load_cluster
from rackwright.plan import Plan, expand
from rackwright.targets import digests


def load_plan(mapping: Mapping[str, Any], stack: str) -> Plan:
    """The plan of a stack; every finding is shown, and an error among them ends the program without a traceback."""
    today = datetime.date.today()
    cluster, findings = load_cluster(mapping)
    if cluster is not None:
        findings = [*findings, *rules.check(cluster, stack=stack, today=today)]
    for finding in findings:
        if not finding.is_error:
            pulumi.log.warn(str(finding))
    errors = [str(finding) for finding in findings if finding.is_error]
    if errors or cluster is None:
        raise pulumi.RunError(f"stack {stack}: {len(errors)} finding(s)\n" + "\n".join(errors))
    return expand(cluster, stack, today)


def options(plan: Plan) -> dict[str, Any]:
    """Settings of the stack that steer a run and are no part of any node."""
    return {"refresh": str(plan.refresh)}


def converge_digests() -> dict[str, str]:
    """Digests of what Converge applies."""
    return digests.converge(paths.project_root())


def verification_digests() -> dict[str, str]:
    """Digests of what Verification runs."""
    return digests.verification(paths.project_root())
