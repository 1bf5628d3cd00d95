"""Control groups: the version of the hierarchy, and the controllers that systemd delegates to an ordinary user."""

from __future__ import annotations

from bootstrap.machine import Machine
from bootstrap.machine_checks.finding import Finding, Level, ok, unknown
from bootstrap.machine_checks.observation import read_file

_LIMITING = ("cpu", "memory", "pids")
"""Controllers for limits: without one, containers start, but the limit cannot be set in them."""
_CONFINING = ("cpuset",)
"""Controller with which Slurm can confine a job to its cores."""
_BOOT_OPTION = "systemd.unified_cgroup_hierarchy=1"
DELEGATE = (
    "sudo mkdir -p /etc/systemd/system/user@.service.d",
    r"printf '[Service]\nDelegate=cpu cpuset io memory pids\n' | sudo tee /etc/systemd/system/user@.service.d/delegate.conf",
    "sudo systemctl daemon-reload",
)


def is_unified(machine: Machine) -> bool | None:
    """Return whether the machine has cgroup v2 only; None if /sys/fs/cgroup does not exist."""
    if machine.has_file("/sys/fs/cgroup/cgroup.controllers"):
        return True
    return False if machine.has_file("/sys/fs/cgroup") else None


def check_control_groups(machine: Machine, unified: bool | None) -> list[Finding]:
    """Check the hierarchy and, for an ordinary user, the delegated controllers."""
    findings = [judge_version(unified, machine.is_root, _boot_commands(machine))]
    if unified and not machine.is_root:
        path = f"/sys/fs/cgroup/user.slice/user-{machine.user_id}.slice/user@{machine.user_id}.service/cgroup.controllers"
        findings.append(judge_controllers(read_file(machine, path)))
    return findings


def _boot_commands(machine: Machine) -> tuple[str, ...]:
    """Return the commands that change the boot options. The option goes last, where it overrides an earlier one."""
    if machine.which("grubby"):
        return (f"sudo grubby --update-kernel=ALL --args={_BOOT_OPTION}", "sudo reboot")
    if machine.manager == "apt" and machine.has_file("/etc/default/grub"):
        edit = rf"""sudo sed -i 's/^\(GRUB_CMDLINE_LINUX="[^"]*\)"/\1 {_BOOT_OPTION}"/' /etc/default/grub"""
        return (edit, "sudo update-grub", "sudo reboot")
    return ()


def judge_version(unified: bool | None, is_root: bool, boot_commands: tuple[str, ...]) -> Finding:
    """Judge the version of the hierarchy."""
    subject = "control groups"
    if unified is None:
        return unknown(subject, "/sys/fs/cgroup is not mounted")
    if unified or is_root:
        return ok(subject, "v2" if unified else "v1 or hybrid; root's Podman runs on it with runc")
    return Finding(
        Level.ERROR,
        subject,
        "wrong version for rootless containers (expected v2, found v1 or hybrid)",
        "only v2 delegates groups to a user, and containers that run systemd end with exit code 255 without them",
        boot_commands,
        f"Boot with the kernel option {_BOOT_OPTION}, or run as root: sudo make up",
    )


def judge_controllers(controllers: str | None) -> Finding:
    """Judge `cgroup.controllers` of user@UID.service."""
    subject = "delegated controllers"
    if controllers is None:
        return unknown(subject, "systemd runs no user manager for this user (user@.service)")
    delegated = controllers.split()
    absent = [name for name in _LIMITING if name not in delegated]
    found = " ".join(delegated) or "none"
    expected = " ".join((*_LIMITING, *_CONFINING))
    then = "Then log out of all sessions and log in again."
    if absent:
        reason = f"limits of {', '.join(absent)} have no effect in the nodes"
        return Finding(Level.WARNING, subject, f"incomplete (expected {expected}, found {found})", reason, DELEGATE, then)
    if not set(_CONFINING) <= set(delegated):
        reason = "Slurm in the nodes cannot confine jobs to cores without cpuset"
        return Finding(Level.INFO, subject, f"without cpuset (expected {expected}, found {found})", reason, DELEGATE, then)
    return ok(subject, found)
