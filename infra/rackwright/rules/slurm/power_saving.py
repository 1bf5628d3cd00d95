"""Power saving: the times of Slurm, and on existing machines the BMCs through which a controller stops and starts them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.model.finding import Severity
from rackwright.model.groups import Role
from rackwright.model.targets.hosts import HostsTarget
from rackwright.model.units import format_seconds
from rackwright.rules.registry import RuleContext, Violation, rule

_SHORT_IDLE: Final = 60
"""Slurm searches for idle nodes about once a minute; shorter times stop nodes between two jobs of one user."""
_SLOW_BOOT: Final = 300
"""Seconds. Chosen: the self-test of a server alone takes minutes, and that of one with eight GPUs up to a quarter of an hour."""
_OLD_PYTHON: Final = frozenset({"ubuntu-22.04", "rocky-9"})
"""Distributions with a Python before 3.11 (packages.ubuntu.com, jammy: 3.10; Rocky Linux 9: 3.9), which sushy 5.14 requires."""


@rule("power-saving-idle")
def power_saving_idle(case: RuleContext) -> Iterator[Violation]:
    """A worker must have time to stop before it counts as idle again."""
    saving = case.slurm.power_saving
    if saving is not None and saving.suspend_time < _SHORT_IDLE:
        cause = f"{format_seconds(saving.suspend_time)} stops workers between two jobs of one user"
        yield Violation("scheduler.power_saving.suspend_time", cause, f"use at least {format_seconds(_SHORT_IDLE)}; 5m is recommended")


@rule("power-saving-times", Severity.WARNING)
def power_saving_times(case: RuleContext) -> Iterator[Violation]:
    """Slurm's guide: SuspendTime should exceed SuspendTimeout + ResumeTimeout (slurm.schedmd.com/power_save.html)."""
    saving = case.slurm.power_saving
    if saving is not None and saving.suspend_time <= saving.suspend_timeout + saving.resume_timeout:
        cycle = format_seconds(saving.suspend_timeout + saving.resume_timeout)
        cause = f"{format_seconds(saving.suspend_time)} does not exceed the time to stop and start a node ({cycle})"
        yield Violation("scheduler.power_saving.suspend_time", cause, f"use more than {cycle}")


@rule("power-saving-timeout")
def power_saving_timeout(case: RuleContext) -> Iterator[Violation]:
    """A node without time to stop or start is marked as down at once."""
    saving = case.slurm.power_saving
    for key, seconds in (("suspend_timeout", saving.suspend_timeout), ("resume_timeout", saving.resume_timeout)) if saving else ():
        if seconds == 0:
            yield Violation(f"scheduler.power_saving.{key}", "0s marks every node down at once", "use 30s or more")


def _switched(case: RuleContext) -> HostsTarget | None:
    """Return the target of existing machines with power saving."""
    target = case.cluster.target
    return target if isinstance(target, HostsTarget) and case.slurm.power_saving is not None else None


def _workers(case: RuleContext) -> list[str]:
    """Return the nodes that Slurm may power down: workers without another role."""
    return [member.name for member in case.with_role(Role.WORKER) if set(member.roles) == {Role.WORKER}]


@rule("power-saving-target")
def power_saving_target(case: RuleContext) -> Iterator[Violation]:
    """Slurm would request stops and starts, and no program would perform them."""
    if case.slurm.power_saving is None:
        return
    if case.cluster.target.kind == "vm":
        yield Violation("scheduler.power_saving", "is not supported on target vm", "remove it")
    target = _switched(case)
    if target is not None and not any(target.bmc_of(name) for name in _workers(case)):
        hint = "declare the BMCs of the workers as `power` of their machines (docs/targets/hosts.md), or remove power_saving"
        yield Violation("scheduler.power_saving", "no machine that is only a worker declares a BMC, so none can be powered on again", hint)


@rule("power-saving-bmc-missing", Severity.WARNING)
def power_saving_bmc_missing(case: RuleContext) -> Iterator[Violation]:
    """Workers without a BMC stay on, and Slurm never powers them down."""
    target, workers = _switched(case), _workers(case)
    missing = [name for name in workers if target is not None and target.bmc_of(name) is None]
    if missing and len(missing) < len(workers):
        hint = "declare the BMC of each as `power` of its machine, or leave them on"
        yield Violation("scheduler.power_saving", f"{', '.join(missing)} stay on, because they declare no BMC", hint)


@rule("power-saving-controller")
def power_saving_controller(case: RuleContext) -> Iterator[Violation]:
    """The service that switches machines runs on the controllers, and needs Python 3.11."""
    target = _switched(case)
    if target is None:
        return
    for member in case.with_role(Role.CONTROLLER):
        os = target.os_of(member.name)
        if os in _OLD_PYTHON:
            cause = f"the controller {member.name} has {os}, whose Python is older than 3.11"
            yield Violation(
                "scheduler.power_saving", cause, "use debian-12, debian-13 or ubuntu-24.04 for controllers, or remove power_saving"
            )


@rule("power-saving-machine-boot", Severity.WARNING)
def power_saving_machine_boot(case: RuleContext) -> Iterator[Violation]:
    """Slurm marks a node that does not resume in time as down, and the job waits for another node."""
    saving = case.slurm.power_saving
    if saving is not None and _switched(case) is not None and saving.resume_timeout < _SLOW_BOOT:
        cause = f"{format_seconds(saving.resume_timeout)} may be less than a machine takes to boot"
        yield Violation("scheduler.power_saving.resume_timeout", cause, "use 15m, or more than the slowest machine takes")


@rule("power-saving-password", Severity.WARNING, level_on_deploy=Severity.ERROR)
def power_saving_password(case: RuleContext) -> Iterator[Violation]:
    """The controllers receive the passwords from this machine. A user who only validates may lack the files."""
    for path, problem in case.secret_problems.items():
        if path.startswith("target.") and _switched(case) is not None:
            yield Violation(path, problem, "write the password alone into the file, with mode 0600, or correct the path")
