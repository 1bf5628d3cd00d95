"""What the program does before its first resource: stack file to plan, or all findings at once."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pulumi

from rackwright import rules
from rackwright.errors import CouldNotTell
from rackwright.handover import applied, paths
from rackwright.model import Severity, has_errors, load_configured
from rackwright.plan import Plan, expand
from rackwright.plan.impact import Action, Consequence, Described, impact
from rackwright.targets import digests


def load(configured: object, stack: str) -> Described:
    """A stack with its plan; every finding is shown, and an error or an edit that is refused ends the program without a traceback."""
    loaded = load_configured(stack, configured, paths.stack_file(stack))
    findings = rules.check(loaded, datetime.date.today(), at_up=True)
    for finding in findings:
        if finding.level is Severity.WARNING:
            pulumi.log.warn(str(finding))
    if has_errors(findings) or loaded.cluster is None:
        errors = [str(finding) for finding in findings if finding.level is Severity.ERROR]
        raise pulumi.RunError(f"stacks/Pulumi.{stack}.yaml: {len(errors)} finding(s)\n" + "\n".join(errors))
    described = Described(loaded.cluster, expand(loaded.cluster, stack))
    _tell(stack, described)
    return described


def _tell(stack: str, described: Described) -> None:
    """What the edit will do: a preview says it, and neither a preview nor an `up` goes on where it is refused."""
    try:
        found = impact(applied.read(paths.applied(stack)), described)
    except CouldNotTell as unreadable:
        pulumi.log.warn(str(unreadable))
        return
    if any(consequence.action is Action.REFUSE for consequence in found):
        raise pulumi.RunError(f"stacks/Pulumi.{stack}.yaml: this edit is refused\n{_lines(found)}")
    if found and pulumi.runtime.is_dry_run():
        pulumi.log.info(f"what the edit does, what interrupts people first:\n{_lines(found)}")


def _lines(found: tuple[Consequence, ...]) -> str:
    return "\n".join(str(consequence) for consequence in found)


def wire(plan: Plan) -> str:
    """The plan as the provider receives it: one text, because the engine drops absent values from mappings and sorts their keys."""
    return json.dumps(plan.to_data(), sort_keys=True)


def options(plan: Plan) -> dict[str, Any]:
    """Settings of the stack that steer a run and are no part of any node."""
    return {"refresh": plan.refresh.value}


def converge_digests() -> dict[str, str]:
    """Digests of what Converge applies."""
    return digests.converge(paths.project_root())


def verification_digests() -> dict[str, str]:
    """Digests of what Verification runs."""
    return digests.verification(paths.project_root())
