"""Preemption of jobs: combinations that Slurm refuses, or accepts and ignores. Sources: slurm.conf(5), sacctmgr(1), preempt.html."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from rackwright.derive.nodes import members_of_partition
from rackwright.model.scheduler.slurm import Partition, PartitionPreemptMode, PreemptionOrder, PreemptMode
from rackwright.rules.registry import RuleContext, Violation, rule

_BY_PARTITION = "preemption: {by: partition_priority}"


def _order(case: RuleContext) -> PreemptionOrder | None:
    """Return what decides which job preempts which; None without preemption."""
    declared = case.slurm.preemption
    if declared is not None:
        return declared.by
    return PreemptionOrder.QOS if any(one.preempt for one in case.slurm.qos.values()) else None


def _mode(case: RuleContext, partition: Partition) -> str:
    """Return the mechanism that preempts jobs of a partition."""
    declared = case.slurm.preemption
    return str(partition.preempt_mode or (declared.mode if declared else PartitionPreemptMode.REQUEUE))


@rule("preemption-without-effect")
def preemption_without_effect(case: RuleContext) -> Iterator[Violation]:
    """Slurm accepts preemption in which no job can preempt another."""
    declared = case.slurm.preemption
    if declared is None:
        return
    if declared.by is PreemptionOrder.QOS and not any(one.preempt for one in case.slurm.qos.values()):
        yield Violation("scheduler.preemption.by", "no QOS preempts another", "add `preempt: [NAME]` to a QOS, or remove `preemption`")
    if declared.by is PreemptionOrder.PARTITION_PRIORITY and not _has_preempting_partition(case):
        cause = "no two partitions share nodes and differ in `priority_tier`, with jobs that may be preempted in the lower tier"
        hint = "add the same groups and a higher `priority_tier` to one partition, or remove `preemption`"
        yield Violation("scheduler.preemption.by", cause, hint)


def _has_preempting_partition(case: RuleContext) -> bool:
    partitions = case.slurm.partitions.values()
    return any(
        upper.priority_tier > lower.priority_tier
        and _mode(case, lower) != PartitionPreemptMode.OFF
        and not _names(case, upper).isdisjoint(_names(case, lower))
        for upper, lower in permutations(partitions, 2)
    )


def _names(case: RuleContext, partition: Partition) -> set[str]:
    return {member.name for member in members_of_partition(case.members, partition)}


@rule("preempt-list-ignored")
def preempt_list_ignored(case: RuleContext) -> Iterator[Violation]:
    """Slurm reads the lists of QOS with PreemptType=preempt/qos only."""
    if _order(case) is PreemptionOrder.PARTITION_PRIORITY:
        for name, one in case.slurm.qos.items():
            if one.preempt:
                cause = "has no effect with preemption by partition"
                yield Violation(f"scheduler.qos.{name}.preempt", cause, "remove the list, or use `preemption: {by: qos}`")


@rule("partition-preempt-mode-ignored")
def partition_preempt_mode_ignored(case: RuleContext) -> Iterator[Violation]:
    """Slurm reads PreemptMode and GraceTime of a partition with PreemptType=preempt/partition_prio only."""
    if _order(case) is PreemptionOrder.PARTITION_PRIORITY:
        return
    for name, partition in case.slurm.partitions.items():
        for key, value in (("preempt_mode", partition.preempt_mode), ("grace_time", partition.grace_time)):
            if value:
                path = f"scheduler.partitions.{name}.{key}"
                yield Violation(path, "has no effect without preemption by partition", f"remove it, or add `{_BY_PARTITION}`")


@rule("grace-time-ignored")
def grace_time_ignored(case: RuleContext) -> Iterator[Violation]:
    """Slurm reads GraceTime of a QOS with PreemptType=preempt/qos only, and none of jobs that are suspended or never preempted."""
    if _order(case) is not PreemptionOrder.QOS:
        for name, one in case.slurm.qos.items():
            if one.grace_time:
                cause = "has no effect without preemption by QOS"
                hint = "remove it, or add `preempt` to a QOS; with preemption by partition, use `grace_time` of the partition"
                yield Violation(f"scheduler.qos.{name}.grace_time", cause, hint)
    if _order(case) is PreemptionOrder.PARTITION_PRIORITY:
        for name, partition in case.slurm.partitions.items():
            mode = _mode(case, partition)
            if partition.grace_time and mode in (PartitionPreemptMode.OFF, PartitionPreemptMode.SUSPEND):
                cause = f"has no effect with the mode `{mode}`"
                hint = "remove it, or use `preempt_mode: requeue`"
                yield Violation(f"scheduler.partitions.{name}.grace_time", cause, hint)


@rule("preemption-exempt-time-ignored")
def preemption_exempt_time_ignored(case: RuleContext) -> Iterator[Violation]:
    """Slurm 24.11 honours PreemptExemptTime for jobs that are requeued or cancelled only."""
    declared, partitions = case.slurm.preemption, case.slurm.partitions.values()
    modes = {_mode(case, partition) for partition in partitions}
    if declared and declared.exempt_time and modes and modes <= {PartitionPreemptMode.OFF, PartitionPreemptMode.SUSPEND}:
        cause = "has no effect where no partition's jobs are requeued or cancelled"
        yield Violation("scheduler.preemption.exempt_time", cause, "remove it, or use `mode: requeue`")


@rule("preemption-suspends-by-qos")
def preemption_suspends_by_qos(case: RuleContext) -> Iterator[Violation]:
    """In one partition, the gang scheduler lets both jobs run in turns: the job of the higher QOS gets half of the time."""
    declared = case.slurm.preemption
    if declared and declared.by is PreemptionOrder.QOS and declared.mode == PreemptMode.SUSPEND:
        cause = "jobs of one partition would run in turns instead of one preempting the other"
        yield Violation("scheduler.preemption.mode", cause, "use `requeue` or `cancel`, or `by: partition_priority`")


@rule("preemption-suspends-gpus")
def preemption_suspends_gpus(case: RuleContext) -> Iterator[Violation]:
    """Suspended jobs release no GRES, and jobs cannot preempt to get GRES (slurm.conf(5), PreemptMode=SUSPEND)."""
    for name, partition, path in _suspended(case):
        with_gpus = [member.name for member in members_of_partition(case.members, partition) if member.gpus]
        if with_gpus:
            cause = f"a suspended job keeps its GPUs, and partition {name} has nodes with GPUs: {', '.join(with_gpus)}"
            yield Violation(path, cause, f"use `preempt_mode: requeue` for partition {name}")


@rule("preemption-suspends-exclusive")
def preemption_suspends_exclusive(case: RuleContext) -> Iterator[Violation]:
    """Suspension needs OverSubscribe=FORCE (preempt.html), and an exclusive partition has OverSubscribe=EXCLUSIVE."""
    for name, partition, path in _suspended(case):
        if partition.exclusive:
            cause = f"jobs of partition {name} have their nodes whole, so that no other job can use the nodes of a suspended one"
            yield Violation(path, cause, f"use `preempt_mode: requeue` for partition {name}, or remove `exclusive`")


def _suspended(case: RuleContext) -> Iterator[tuple[str, Partition, str]]:
    """Yield each partition with preemption by suspension, and the key that configures it."""
    if _order(case) is PreemptionOrder.PARTITION_PRIORITY:
        for name, partition in case.slurm.partitions.items():
            if _mode(case, partition) == PartitionPreemptMode.SUSPEND:
                path = f"scheduler.partitions.{name}.preempt_mode" if partition.preempt_mode else "scheduler.preemption.mode"
                yield name, partition, path
