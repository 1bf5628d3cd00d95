"""What the program does before its first resource: stack file to plan, or all findings at once."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path
from typing import Any, Final

import pulumi

from rackwright import layout, rules
from rackwright.errors import UndeterminedError
from rackwright.impact import Action, ClusterPlan, PlannedChange, impact
from rackwright.inventory import applied, paths, site_playbooks
from rackwright.model import Severity, has_errors
from rackwright.plan import Plan, expand
from rackwright.stackfile.load import load_configured
from rackwright.targets import digests, kubernetes
from rackwright.targets.lab import machine

_FILES: Final = "file://"
_MONEY: Final[Any] = {"cost": True, "budget": True, "allow_local_state": True, "target": {"ownership_cost": True}}


def load(configured: object, stack: str) -> ClusterPlan:
    """A stack with its plan; every finding is shown, and an error or an edit that is refused ends the program without a traceback."""
    loaded = load_configured(stack, configured, paths.stack_file(stack))
    findings = rules.check(loaded, datetime.date.today(), at_up=True, absent=site_playbooks.absent(loaded.cluster))
    for finding in findings:
        if finding.level is Severity.WARNING:
            pulumi.log.warn(str(finding))
    if has_errors(findings) or loaded.cluster is None:
        errors = [str(finding) for finding in findings if finding.level is Severity.ERROR]
        raise pulumi.RunError(f"stacks/Pulumi.{stack}.yaml: {len(errors)} finding(s)\n" + "\n".join(errors))
    plan = machine.with_constraints(kubernetes.resolve_object_owner(expand(loaded.cluster, stack), os.environ))
    described = ClusterPlan(loaded.cluster, plan)
    machine.refuse_unfit(described.plan)
    _refuse_local_state(described.plan)
    _report_preview(stack, described)
    return described


def _report_preview(stack: str, described: ClusterPlan) -> None:
    """What the edit will do: a preview says it, and neither a preview nor an `up` goes on where it is refused."""
    try:
        found = impact(applied.read(paths.applied(stack)), described)
    except UndeterminedError as unreadable:
        pulumi.log.warn(str(unreadable))
        return
    if any(consequence.action is Action.REFUSE for consequence in found):
        raise pulumi.RunError(f"stacks/Pulumi.{stack}.yaml: this edit is refused\n{_lines(found)}")
    if found and pulumi.runtime.is_dry_run():
        pulumi.log.info(f"what the edit does, what interrupts people first:\n{_lines(found)}")


def _lines(found: tuple[PlannedChange, ...]) -> str:
    return "\n".join(str(consequence) for consequence in found)


def _refuse_local_state(plan: Plan) -> None:
    """A lost state of instances is instances nobody knows of, and they bill: it may not lie on this machine's disk alone by default."""
    if not plan.target.costs_money or plan.allow_local_state or not _state_is_embedded():
        return
    cause = (
        f"stacks/Pulumi.{plan.stack}.yaml: allow_local_state: the engine's state would lie in {paths.engine_state()} alone, "
        "and this stack bills money"
    )
    hint = "keep it elsewhere (`rackwright state migrate`, or `pulumi login s3://BUCKET`), or accept it with `allow_local_state: true`"
    if not pulumi.runtime.is_dry_run():
        raise pulumi.RunError(f"{cause}\n  {hint}")
    pulumi.log.warn(f"{cause}: `up` will refuse\n  {hint}")


def _state_is_embedded() -> bool:
    """Whether the engine keeps state in the home; the `pulumi` of the environment says so where no login names another place."""
    address = os.environ.get("PULUMI_BACKEND_URL", "")
    if not address.startswith(_FILES):
        return False
    folder = Path(address.removeprefix(_FILES).partition("?")[0]).expanduser()
    return folder.resolve() == paths.engine_state().resolve()


def serialize_plan(plan: Plan) -> str:
    """The plan as the provider receives it: one text, because the engine drops absent values from mappings and sorts their keys.

    What things cost is not in it: a new price must not converge a cluster again.
    """
    return json.dumps(plan.model_dump(mode="json", exclude=_MONEY), sort_keys=True)


def options(plan: Plan) -> dict[str, Any]:
    """Settings of the stack that steer a run and are no part of any node."""
    return {"refresh": plan.refresh.value}


def converge_options(described: ClusterPlan) -> dict[str, Any]:
    """The same for Converge, with the user's own playbooks where there are any."""
    own = site_playbooks.listed(described.cluster)
    return options(described.plan) | ({"site": own} if own else {})


def converge_digests(described: ClusterPlan) -> dict[str, str]:
    """Digests of what Converge applies, the user's own playbooks among it."""
    own = [file for files in site_playbooks.listed(described.cluster).values() for file in files]
    return digests.converge(layout.product_root(), site_playbooks.parts(own), paths.project_root())


def verification_digests() -> dict[str, str]:
    """Digests of what Verification runs."""
    return digests.verification(layout.product_root())
