"""What the program does before its first resource: stack file to plan, or all findings at once."""

from __future__ import annotations

import datetime
import json
from typing import Any, Final

import pulumi

from rackwright import rules
from rackwright.handover import paths
from rackwright.model import Severity, has_errors, load_configured
from rackwright.plan import Plan, expand
from rackwright.targets import digests

_MONEY: Final[Any] = {"cost": True, "budget": True, "state": True, "target": {"economics": True}}


def load_plan(configured: object, stack: str) -> Plan:
    """The plan of a stack; every finding is shown, and an error among them ends the program without a traceback."""
    loaded = load_configured(stack, configured, paths.stack_file(stack))
    findings = rules.check(loaded, datetime.date.today())
    for finding in findings:
        if finding.level is Severity.WARNING:
            pulumi.log.warn(str(finding))
    if has_errors(findings) or loaded.cluster is None:
        errors = [str(finding) for finding in findings if finding.level is Severity.ERROR]
        raise pulumi.RunError(f"stacks/Pulumi.{stack}.yaml: {len(errors)} finding(s)\n" + "\n".join(errors))
    return expand(loaded.cluster, stack)


def wire(plan: Plan) -> str:
    """The plan as the provider receives it: one text, because the engine drops absent values from mappings and sorts their keys.

    What things cost is not in it: a new price must not converge a cluster again.
    """
    return json.dumps(plan.model_dump(mode="json", exclude=_MONEY), sort_keys=True)


def options(plan: Plan) -> dict[str, Any]:
    """Settings of the stack that steer a run and are no part of any node."""
    return {"refresh": plan.refresh.value}


def converge_digests() -> dict[str, str]:
    """Digests of what Converge applies."""
    return digests.converge(paths.project_root())


def verification_digests() -> dict[str, str]:
    """Digests of what Verification runs."""
    return digests.verification(paths.project_root())
