"""Properties of this machine that a lab depends on: refused before the first resource if it cannot run one, and part of the plan."""

from __future__ import annotations

import pulumi

from rackwright import layout
from rackwright.drivers import cgroups
from rackwright.drivers.cgroups import rootless
from rackwright.plan import Plan


def with_constraints(plan: Plan) -> Plan:
    """Return the plan with the resources to which Slurm in containers of this machine can confine jobs."""
    slurm = plan.scheduler
    if plan.target.kind != "lab" or slurm.kind != "slurm":
        return plan
    declared = max((node.cpus for node in slurm.nodes), default=1)
    found = cgroups.job_constraints(rootless=rootless(), declared_cpus=declared)
    return plan.model_copy(update={"scheduler": slurm.model_copy(update={"constrains": found})})


def refuse_unfit(plan: Plan) -> None:
    """Raise where containers of this plan cannot run here, with the reason and the command that helps."""
    if plan.target.kind != "lab" or not rootless():
        return
    command = f"run `sudo {_up(plan.stack)}`"
    if plan.scheduler.kind == "kubernetes":
        raise pulumi.RunError(
            f"stacks/Pulumi.{plan.stack}.yaml: scheduler.kind: a kubelet mounts file systems, makes devices and writes kernel settings, "
            "and rootless Podman lets it do none of these\n"
            f"  {command}, or use a lab with Slurm: `{_up('lab')}`"
        )
    if not cgroups.is_cgroup_v2():
        raise pulumi.RunError(
            f"stacks/Pulumi.{plan.stack}.yaml: target.kind: lab: rootless Podman needs cgroup v2 alone, and this machine has cgroup v1 "
            "(containers exit with status 255 at once)\n"
            f"  {command}, or boot this machine with the kernel parameter systemd.unified_cgroup_hierarchy=1"
        )


def _up(stack: str) -> str:
    return f"make up STACK={stack}" if layout.is_checkout() else f"rackwright up {stack}"
