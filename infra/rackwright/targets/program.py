"""The program's steps before its first resource: stack file to plan, or all findings at once."""

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
from rackwright.inventory.secret_files import secret_file_problems
from rackwright.model import Severity, has_errors
from rackwright.plan import Plan, expand
from rackwright.stackfile.load import load_configured
from rackwright.targets import digests, kubernetes
from rackwright.targets.lab import host_requirements
from rackwright.targets.vm import host_requirements as vm_requirements

_FILES: Final = "file://"
_MONEY: Final[Any] = {"cost": True, "budget": True, "allow_local_state": True, "target": {"ownership_cost": True}}


def load(configured: object, stack: str) -> ClusterPlan:
    """Return a stack with its plan. Report every finding; end the program without a traceback for an error or a refused edit."""
    loaded = load_configured(stack, configured, paths.stack_file(stack))
    missing, problems = site_playbooks.missing_site_files(loaded.cluster), secret_file_problems(loaded.cluster)
    findings = rules.check(loaded, datetime.date.today(), at_up=True, missing_files=missing, secret_problems=problems)
    for finding in findings:
        if finding.level is Severity.WARNING:
            pulumi.log.warn(str(finding))
    if has_errors(findings) or loaded.cluster is None:
        errors = [str(finding) for finding in findings if finding.level is Severity.ERROR]
        raise pulumi.RunError(f"stacks/Pulumi.{stack}.yaml: {len(errors)} finding(s)\n" + "\n".join(errors))
    plan = host_requirements.with_constraints(kubernetes.resolve_object_owner(expand(loaded.cluster, stack), os.environ))
    described = ClusterPlan(loaded.cluster, plan)
    host_requirements.refuse_unfit(described.plan)
    vm_requirements.refuse_unfit(described.plan)
    _refuse_local_state(described.plan)
    _report_preview(stack, described)
    return described


def _report_preview(stack: str, described: ClusterPlan) -> None:
    """Report the effect of the edit in a preview; end a preview and an `up` where the edit is refused."""
    try:
        found = impact(applied.read(paths.applied(stack)), described)
    except UndeterminedError as unreadable:
        pulumi.log.warn(str(unreadable))
        return
    if any(consequence.action is Action.REFUSE for consequence in found):
        raise pulumi.RunError(f"stacks/Pulumi.{stack}.yaml: this edit is refused\n{_lines(found)}")
    if found and pulumi.runtime.is_dry_run():
        pulumi.log.info(f"what the edit does, the most disruptive first:\n{_lines(found)}")


def _lines(found: tuple[PlannedChange, ...]) -> str:
    return "\n".join(str(consequence) for consequence in found)


def _refuse_local_state(plan: Plan) -> None:
    """Refuse a local state for a stack that is billed: with the disk of this machine, the record of running instances would be lost."""
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
    """Return whether the engine's state is in the state directory, where `pulumi` of the environment puts it without a login elsewhere."""
    address = os.environ.get("PULUMI_BACKEND_URL", "")
    if not address.startswith(_FILES):
        return False
    folder = Path(address.removeprefix(_FILES).partition("?")[0]).expanduser()
    return folder.resolve() == paths.engine_state().resolve()


def serialize_plan(plan: Plan) -> str:
    """Return the plan as one text, because the engine drops absent values from mappings and sorts their keys.

    Costs are left out: a new price must not converge a cluster again.
    """
    return json.dumps(plan.model_dump(mode="json", exclude=_MONEY), sort_keys=True)


def options(plan: Plan) -> dict[str, Any]:
    """Return the settings of the stack that apply to a run and to no node."""
    return {"refresh": plan.refresh.value}


def converge_options(described: ClusterPlan) -> dict[str, Any]:
    """Return the options of Converge, with the user's own playbooks if there are any."""
    own = site_playbooks.listed(described.cluster)
    return options(described.plan) | ({"site": own} if own else {})


def converge_digests(described: ClusterPlan) -> dict[str, str]:
    """Return digests of what Converge applies, the user's own playbooks included."""
    own = [file for files in site_playbooks.listed(described.cluster).values() for file in files]
    found = digests.converge(layout.product_root(), site_playbooks.parts(own), paths.project_root())
    saving = described.plan.scheduler.power_saving
    if saving is None or not saving.bmcs:
        return found
    from rackwright.drivers.bmc.archive import archive_digest  # Few stacks need it, and each `up` would import it.

    return found | {"power_archive": archive_digest()}


def verification_digests() -> dict[str, str]:
    """Return digests of what Verification runs."""
    return digests.verification(layout.product_root())
