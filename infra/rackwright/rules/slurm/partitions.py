"""Partitions: their nodes, and whether the nodes have what the partitions require."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.derive.nodes import members_of_partition
from rackwright.model.finding import Severity, did_you_mean
from rackwright.model.groups import Role, roles_of
from rackwright.model.scheduler.slurm import Gres
from rackwright.model.units import format_seconds
from rackwright.rules.registry import RuleContext, Violation, rule


@rule("partition-empty")
def partition_empty(case: RuleContext) -> Iterator[Violation]:
    """Jobs in a partition without nodes wait forever."""
    for name, partition in case.slurm.partitions.items():
        if not partition.groups and not partition.nodes:
            yield Violation(f"scheduler.partitions.{name}", "has neither groups nor nodes", "add `groups: [worker]`")


@rule("partition-group-unknown")
def partition_group_unknown(case: RuleContext) -> Iterator[Violation]:
    """Partitions name groups of this file."""
    for name, partition in case.slurm.partitions.items():
        for index, group in enumerate(partition.groups):
            if group not in case.cluster.groups:
                path = f"scheduler.partitions.{name}.groups[{index}]"
                yield Violation(path, f"there is no group `{group}`", did_you_mean(group, case.cluster.groups))


@rule("partition-node-unknown")
def partition_node_unknown(case: RuleContext) -> Iterator[Violation]:
    """Partitions name nodes of this file."""
    for name, partition in case.slurm.partitions.items():
        for index, node in enumerate(partition.nodes):
            if node not in case.node_names:
                path = f"scheduler.partitions.{name}.nodes[{index}]"
                yield Violation(path, f"there is no node `{node}`", did_you_mean(node, case.node_names))


@rule("partition-not-worker")
def partition_not_worker(case: RuleContext) -> Iterator[Violation]:
    """Only workers run jobs."""
    for name, partition in case.slurm.partitions.items():
        other_members = [member.name for member in members_of_partition(case.members, partition) if Role.WORKER not in member.roles]
        other_members += [group for group in partition.groups if _is_empty_non_worker_group(case, group)]
        if other_members:
            cause = f"has members without the role worker: {', '.join(other_members)}"
            yield Violation(f"scheduler.partitions.{name}", cause, "add the role worker, or remove them from the partition")


def _is_empty_non_worker_group(case: RuleContext, name: str) -> bool:
    group = case.cluster.groups.get(name)
    return group is not None and group.count == 0 and Role.WORKER not in roles_of(name, group)


@rule("partition-gres")
def partition_gres(case: RuleContext) -> Iterator[Violation]:
    """Every node of a partition that requires GPUs must have GPUs."""
    for name, partition in case.slurm.partitions.items():
        bare = [member.name for member in members_of_partition(case.members, partition) if member.gpus is None]
        if Gres.GPU in partition.gres and bare:
            cause = f"requires GPUs; nodes without GPUs: {', '.join(bare)}"
            yield Violation(
                f"scheduler.partitions.{name}.gres", cause, "add `gpus:` to the group, or create a separate partition for CPU nodes"
            )


@rule("partition-default-repeated")
def partition_default_repeated(case: RuleContext) -> Iterator[Violation]:
    """Slurm would use the last one, without a message."""
    defaults = [name for name, partition in case.slurm.partitions.items() if partition.default]
    for name in defaults[1:]:
        yield Violation(f"scheduler.partitions.{name}.default", f"{defaults[0]} is already the default", "keep one default")


@rule("partition-name-reserved")
def partition_name_reserved(case: RuleContext) -> Iterator[Violation]:
    """`PartitionName=DEFAULT` sets defaults in slurm.conf, in any case of letters."""
    for name in case.slurm.partitions:
        if name.lower() in {"default", "all"}:
            yield Violation(f"scheduler.partitions.{name}", f"`{name}` is reserved by Slurm", "choose another name")


@rule("partition-time-zero")
def partition_time_zero(case: RuleContext) -> Iterator[Violation]:
    """No job fits into a time limit of zero; omit the field for no limit."""
    for name, partition in case.slurm.partitions.items():
        if partition.max_time == 0:
            yield Violation(f"scheduler.partitions.{name}.max_time", "0s permits no job", "omit it for no limit")
        if partition.default_time == 0:
            yield Violation(f"scheduler.partitions.{name}.default_time", "0s permits no job", "omit it for the value of `max_time`")


@rule("partition-default-time")
def partition_default_time(case: RuleContext) -> Iterator[Violation]:
    """Slurm refuses jobs that request no time if the default exceeds the maximum."""
    for name, partition in case.slurm.partitions.items():
        default, most = partition.default_time, partition.max_time
        if default is not None and most and default > most:
            cause = f"{format_seconds(default)} exceeds the `max_time` of {format_seconds(most)}"
            yield Violation(f"scheduler.partitions.{name}.default_time", cause, f"use at most {format_seconds(most)}")


@rule("partition-max-nodes", Severity.WARNING)
def partition_max_nodes(case: RuleContext) -> Iterator[Violation]:
    """A limit above the number of nodes limits nothing, and may be a typing error."""
    for name, partition in case.slurm.partitions.items():
        inside = len(members_of_partition(case.members, partition))
        if partition.max_nodes is not None and partition.max_nodes > inside > 0:
            cause = f"{partition.max_nodes} nodes of a job, but the partition has {inside}"
            yield Violation(f"scheduler.partitions.{name}.max_nodes", cause, f"use at most {inside}, or remove the limit")


@rule("partition-account-unknown")
def partition_account_unknown(case: RuleContext) -> Iterator[Violation]:
    """A partition admits accounts of this file; accounts need the accounting database."""
    known = {*case.slurm.accounts, "default"}
    for name, partition in case.slurm.partitions.items():
        path = f"scheduler.partitions.{name}.allow_accounts"
        if partition.allow_accounts and not case.with_role(Role.ACCOUNTING):
            yield Violation(path, "no node has the role accounting, so that no job has an account", "add the role to a group")
            continue
        for index, account in enumerate(partition.allow_accounts):
            if account not in known:
                yield Violation(f"{path}[{index}]", f"there is no account `{account}`", did_you_mean(account, known))


@rule("partition-user-group-unknown")
def partition_user_group_unknown(case: RuleContext) -> Iterator[Violation]:
    """A partition admits user groups of this file, or of the directory, which cannot be queried offline."""
    known = {*case.cluster.user_groups, *case.cluster.users}
    for name, partition in case.slurm.partitions.items():
        for index, group in enumerate(partition.allow_groups):
            if group not in known and case.cluster.directory is None:
                path = f"scheduler.partitions.{name}.allow_groups[{index}]"
                yield Violation(path, f"there is no user group `{group}`", f"{did_you_mean(group, known)}, or declare it in `user_groups`")


@rule("node-options-unused")
def node_options_unused(case: RuleContext) -> Iterator[Violation]:
    """Features and weights are options of nodes on which Slurm runs jobs."""
    for name, group in case.cluster.groups.items():
        if case.kubernetes is not None:
            cause = "the scheduler is Kubernetes, which has no such option of nodes"
        elif Role.WORKER not in roles_of(name, group):
            cause = f"group {name} runs no jobs"
        else:
            continue
        for key in ("features", "weight"):
            if key in group.model_fields_set:
                yield Violation(f"groups.{name}.{key}", cause, f"remove `{key}`")


@rule("worker-unreachable", Severity.WARNING)
def worker_unreachable(case: RuleContext) -> Iterator[Violation]:
    """A worker that belongs to no partition runs no job."""
    partitions = case.slurm.partitions
    if partitions:
        served = {member.name for partition in partitions.values() for member in members_of_partition(case.members, partition)}
        idle = [member.name for member in case.with_role(Role.WORKER) if member.name not in served]
        if idle:
            yield Violation("scheduler.partitions", f"workers in no partition: {', '.join(idle)}", "add their group to a partition")
