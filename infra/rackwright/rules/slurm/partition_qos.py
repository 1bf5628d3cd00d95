"""QOS of partitions: references to existing QOS with limits, and QOS that a job can request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.model.finding import Severity, did_you_mean
from rackwright.model.groups import Role
from rackwright.model.scheduler.slurm import Qos, QosFlag
from rackwright.rules.registry import RuleContext, Violation, rule

_ORDINARY: Final = "normal"
"""The quality of service that Slurm creates itself (sacctmgr(1))."""


@rule("partition-qos-unknown")
def partition_qos_unknown(case: RuleContext) -> Iterator[Violation]:
    """slurmctld does not start with a partition whose QOS does not exist; rackwright sets no limits of Slurm's own QOS."""
    declared = case.slurm.qos
    for name, partition in case.slurm.partitions.items():
        path = f"scheduler.partitions.{name}"
        if partition.qos == _ORDINARY:
            yield Violation(f"{path}.qos", f"`{_ORDINARY}` has no limits", "declare a QOS with limits, or remove `qos`")
        elif partition.qos is not None and partition.qos not in declared:
            yield Violation(f"{path}.qos", f"there is no QOS `{partition.qos}`", did_you_mean(partition.qos, declared))
        for index, qos in enumerate(partition.allow_qos):
            if qos not in {*declared, _ORDINARY}:
                yield Violation(f"{path}.allow_qos[{index}]", f"there is no QOS `{qos}`", did_you_mean(qos, {*declared, _ORDINARY}))


@rule("partition-qos-without-accounting")
def partition_qos_without_accounting(case: RuleContext) -> Iterator[Violation]:
    """QOS are in the accounting database."""
    if case.with_role(Role.ACCOUNTING):
        return
    for name, partition in case.slurm.partitions.items():
        for key in ("qos", "allow_qos"):
            if getattr(partition, key):
                path = f"scheduler.partitions.{name}.{key}"
                yield Violation(path, "no node has the role accounting, so that no job has a QOS", "add the role to a group")


@rule("partition-qos-without-limits", Severity.WARNING)
def partition_qos_without_limits(case: RuleContext) -> Iterator[Violation]:
    """A partition gets the limits of its QOS; priority, preemption and usage factor are those of the job's QOS (qos.html)."""
    for name, partition in case.slurm.partitions.items():
        qos = case.slurm.qos.get(partition.qos or "")
        if qos is not None and not _has_limits(qos):
            cause = f"QOS {partition.qos} has no limits, and jobs of the partition get neither its priority nor its preemption"
            hint = f"add a limit like `grp_gpus` to QOS {partition.qos}, or let jobs request it: `sbatch --qos={partition.qos}`"
            yield Violation(f"scheduler.partitions.{name}.qos", cause, hint)


def _has_limits(qos: Qos) -> bool:
    limits = (qos.grp_gpus, qos.grp_jobs, qos.max_gpus_per_job, qos.max_gpus_per_user, qos.max_jobs_per_user, qos.max_wall)
    return any(limit is not None for limit in limits)


@rule("partition-qos-not-allowed", Severity.WARNING)
def partition_qos_not_allowed(case: RuleContext) -> Iterator[Violation]:
    """A job can request a QOS of its account only."""
    usable = {_ORDINARY, *(qos for account in case.slurm.accounts.values() for qos in account.qos)}
    for name, partition in case.slurm.partitions.items():
        if partition.allow_qos and usable.isdisjoint(partition.allow_qos):
            cause = f"no account has any of the QOS {', '.join(partition.allow_qos)}, so that no user can submit to the partition"
            yield Violation(f"scheduler.partitions.{name}.allow_qos", cause, "add one of them to `qos` of an account")


@rule("qos-deny-without-limits", Severity.WARNING)
def qos_deny_without_limits(case: RuleContext) -> Iterator[Violation]:
    """DenyOnLimit changes when a job that exceeds a limit is refused."""
    for name, qos in case.slurm.qos.items():
        if QosFlag.DENY_ON_LIMIT in qos.flags and not _has_limits(qos):
            yield Violation(f"scheduler.qos.{name}.flags", "DenyOnLimit has no effect without limits", "add a limit, or remove the flag")
