"""The batch system: controllers and accounting. Other modules have the rules for partitions and power saving."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.model.finding import Severity, did_you_mean
from rackwright.model.groups import Role
from rackwright.model.units import format_seconds
from rackwright.rules.registry import RuleContext, Violation, rule

_LONG_DRAIN: Final = 86400
"""Seconds of a day. Chosen: `up` blocks for that long, and no other change can be applied to the stack meanwhile."""
_HEALTH_S: Final = (10, 65535)
"""Seconds: a health check may take 2, and slurm.conf(5) stores the interval in 16 bits."""


@rule("controller-backup-undeclared")
def controller_backup_undeclared(case: RuleContext) -> Iterator[Violation]:
    """Two controllers that both act as primary lose jobs."""
    names = [member.name for member in case.with_role(Role.CONTROLLER)]
    first = [name for name in names if name not in case.slurm.backup_controllers]
    if len(first) > 1 and case.kubernetes is None:
        cause = f"{', '.join(first)} are all controllers, but none is declared a backup"
        yield Violation(
            "scheduler.backup_controllers", cause, f"add `backup_controllers: [{', '.join(first[1:])}]`, or keep one controller"
        )


@rule("controller-all-backup")
def controller_all_backup(case: RuleContext) -> Iterator[Violation]:
    """A backup needs a primary controller."""
    names = [member.name for member in case.with_role(Role.CONTROLLER)]
    if names and all(name in case.slurm.backup_controllers for name in names):
        yield Violation("scheduler.backup_controllers", "every controller is declared a backup", "remove the first one from the list")


@rule("backup-unknown")
def backup_unknown(case: RuleContext) -> Iterator[Violation]:
    """Backups are controller nodes."""
    controllers = {member.name for member in case.with_role(Role.CONTROLLER)}
    for index, name in enumerate(case.slurm.backup_controllers):
        path = f"scheduler.backup_controllers[{index}]"
        if name not in case.node_names:
            yield Violation(path, f"there is no node `{name}`", did_you_mean(name, controllers))
        elif name not in controllers:
            yield Violation(path, f"{name} does not have the role controller", "add the role to its group")


@rule("pam-slurm-adopt-needs-cgroups")
def pam_slurm_adopt_needs_cgroups(case: RuleContext) -> Iterator[Violation]:
    """An SSH session joins the control group of a job, so Slurm must create control groups."""
    if case.slurm.pam_slurm_adopt and not case.cluster.target.has_cgroups:
        cause = "nodes are containers, in which Slurm has no control groups of its own that a session could join"
        yield Violation("scheduler.pam_slurm_adopt", cause, "remove it, or use nodes with their own kernel")


@rule("backup-without-storage")
def backup_without_storage(case: RuleContext) -> Iterator[Violation]:
    """A backup continues from the first controller's state, so both must see one StateSaveLocation."""
    if case.slurm.backup_controllers and not case.cluster.storage:
        yield Violation(
            "scheduler.backup_controllers", "controllers need a shared file system for their state", "declare one under storage"
        )


@rule("health-interval-range")
def health_interval_range(case: RuleContext) -> Iterator[Violation]:
    """A health check every few seconds costs jobs CPU time; an interval beyond Slurm's limit is invalid."""
    interval, (least, most) = case.slurm.health_check_interval, _HEALTH_S
    if interval is not None and not least <= interval <= most:
        cause = f"{format_seconds(interval)} is not between {least} s and {most} s"
        yield Violation("scheduler.health_check_interval", cause, "use 60s, or null to disable the node health check")


@rule("multiple-accounting-nodes")
def multiple_accounting_nodes(case: RuleContext) -> Iterator[Violation]:
    """Each of two databases would have half of the jobs."""
    names = [member.name for member in case.with_role(Role.ACCOUNTING)]
    if len(names) > 1:
        yield Violation("groups", f"{len(names)} nodes have the role accounting: {', '.join(names)}", "keep it on one node")


@rule("accounting-missing", Severity.WARNING)
def accounting_missing(case: RuleContext) -> Iterator[Violation]:
    """sacct, limits and fair share need the database."""
    if not case.with_role(Role.ACCOUNTING) and case.kubernetes is None and not case.is_runner:
        yield Violation(
            "groups", "no node has the role accounting: sacct, limits and fair share will not work", "add it to the login group's roles"
        )


@rule("drain-timeout-zero", Severity.WARNING)
def drain_timeout_zero(case: RuleContext) -> Iterator[Violation]:
    """A leaving node with running jobs then makes `up` fail at once."""
    if case.cluster.scheduler.drain_timeout == 0:
        yield Violation(
            "scheduler.drain_timeout", "0s waits for no job", "set how long a node to be removed may wait for its jobs, like 5m"
        )


@rule("drain-timeout-too-long", Severity.WARNING)
def drain_timeout_too_long(case: RuleContext) -> Iterator[Violation]:
    """`up` waits that long before it fails."""
    timeout = case.cluster.scheduler.drain_timeout
    if timeout > _LONG_DRAIN:
        yield Violation("scheduler.drain_timeout", f"`up` may wait {format_seconds(timeout)} for jobs to end", "use at most a day")
