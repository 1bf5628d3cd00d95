"""Podman and its OCI runtime."""

from __future__ import annotations

import re

from bootstrap.machine import Machine
from bootstrap.machine_checks.finding import Finding, Level, ok, unknown
from bootstrap.machine_checks.lab_stack import LabStack
from bootstrap.machine_checks.observation import Output, run_command

TRIED = (4, 3)
"""The oldest Podman that ran the labs (docs/lab.md, Where it was run)."""
ROOTLESS_NODES = 12
"""Larger labs raise fs.inotify.max_user_instances, which needs root (infra/rackwright/targets/lab/nodes.py: 8 for each node, 96 in all)."""


def check_engine(machine: Machine, unified: bool | None) -> list[Finding]:
    """Check Podman and the runtime in this user's PATH; the runtime is installed with Podman."""
    version = run_command(machine, "podman", "--version")
    if version is None:
        return [unknown("Podman", "it is not installed yet")]
    return [judge_podman(version), judge_runtime(machine.which("runc"), machine.which("crun"), unified, machine.manager)]


def judge_podman(version: Output) -> Finding:
    """Judge the output of `podman --version`."""
    if version.timed_out:
        return unknown("Podman", f"`podman --version`: {version.last_line}")
    numbers = re.search(r"version (\d+)\.(\d+)", version.stdout)
    if version.code:
        return Finding(Level.ERROR, "Podman", f"does not start: {version.last_line}", "every node is a Podman container", ("podman info",))
    if numbers is None:
        return unknown("Podman", f"`podman --version` printed {version.stdout.strip()[:60]!r}")
    if (int(numbers[1]), int(numbers[2])) < TRIED:
        return Finding(
            Level.WARNING,
            "Podman",
            f"older than tried (expected 4.3 or newer, found {numbers[1]}.{numbers[2]})",
            "the labs were never run with this version",
        )
    return ok("Podman", f"{numbers[1]}.{numbers[2]}")


def judge_runtime(runc: str | None, crun: str | None, unified: bool | None, package_manager: str) -> Finding:
    """Judge the installed OCI runtime: on cgroup v1 or hybrid it must be runc."""
    subject = "OCI runtime"
    if unified is None:
        return unknown(subject, "/sys/fs/cgroup cannot be read")
    install = {"apt": "sudo apt-get install -y runc", "dnf": "sudo dnf install -y runc"}.get(package_manager)
    commands = (install,) if install else ()
    if not unified and runc is None:
        found = "crun" if crun else "none"
        reason = "crun refuses hybrid control groups"
        return Finding(Level.ERROR, subject, f"not suitable for cgroup v1 (expected runc, found {found})", reason, commands)
    if runc is None and crun is None:
        return Finding(Level.ERROR, subject, "missing (expected runc or crun)", "Podman starts containers with it", commands)
    return ok(subject, "runc" if not unified or crun is None else "crun")


def judge_privileges(stack: LabStack, is_root: bool) -> Finding:
    """Judge whether this user can run such a lab at all."""
    subject = "privileges"
    again = f"sudo make up STACK={stack.name}"
    if is_root:
        return ok(subject, "root")
    if stack.is_kubernetes:
        return Finding(
            Level.ERROR,
            subject,
            f"stack {stack.name} runs Kubernetes in containers (expected root, found an ordinary user)",
            "a kubelet in a container needs rights that only root's Podman can give",
            (again,),
            "Or use a Slurm lab, which runs as this user: make up STACK=lab",
        )
    if stack.counted_nodes is not None and stack.counted_nodes > ROOTLESS_NODES:
        return Finding(
            Level.ERROR,
            subject,
            f"stack {stack.name} has more than {ROOTLESS_NODES} nodes (expected root, found an ordinary user)",
            "it raises fs.inotify.max_user_instances of the machine while it is up",
            (again,),
        )
    return ok(subject, "an ordinary user; containers run rootless")
