"""A stack of target `vm` from a clean clone: its folders, its processes, and what is left of it at the end."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.project import Project, clone

_BOOT = 900
"""Seconds for an emulated machine to come back after a reboot."""
_REGISTERED = 300
"""Seconds in which slurmctld, itself rebooted, asks each node for its state: at intervals of a third of SlurmdTimeout (slurm.conf(5))."""


@contextmanager
def virtual_machines(
    checkout: Path, like: str, *, up: float, change: Callable[[dict[str, Any]], object] = lambda _cluster: None
) -> Iterator[Project]:
    """Yield a stack of virtual machines, up; delete it and find nothing left of it.

    `up`: seconds that its creation may take. `change`: changes the description of the stack before.
    """
    if shutil.which("qemu-system-x86_64") is None:
        pytest.fail("QEMU is not installed: these tests make virtual machines (`sudo apt install qemu-system-x86 qemu-utils`)")
    project = clone(checkout, like=like)
    project.edit(change)
    try:
        project.run_checked("up", timeout=up)
        yield project
        print_panics(project)
        project.run_checked("destroy", timeout=900)
        assert processes(project) == [] and not folder(project).exists()
    finally:
        project.rackwright("down", project.stack, "--by-label")
        project.remove()


def folder(project: Project, *parts: str) -> Path:
    """Return a folder of the stack's machines."""
    return project.home.joinpath(".machines", project.stack, *parts)


def print_panics(project: Project) -> None:
    """Print what the kernels of panicked machines wrote, before their folders are deleted."""
    for machine in folder(project, "nodes").glob("*"):
        for console in sorted(machine.glob("console.log*")):
            text = console.read_text(encoding="utf-8", errors="replace")
            if "Kernel panic" in text:
                print(machine.name, console.name, text[max(0, text.rindex("Kernel panic") - 4000) :], sep="\n")


def processes(project: Project) -> list[int]:
    """Return the processes that run in the stack's folders."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(place / "cwd")).is_relative_to(folder(project)):
                found.append(int(place.name))
        except OSError:
            continue
    return found


def process_of(project: Project, *parts: str) -> int:
    """Return the process of a machine (`nodes`, NODE) or of the network (`network`)."""
    row = json.loads((folder(project, *parts) / "process.json").read_text(encoding="utf-8"))
    return int(row["pid"])


def reboot(project: Project, node: str) -> None:
    """Reboot a guest, and wait until all its services have started."""
    before, deadline = boot_id(project, node), time.monotonic() + _BOOT
    project.ssh(node, "systemd-run --on-active=1 systemctl reboot")
    while time.monotonic() < deadline:
        time.sleep(5)
        said = project.ssh(node, "cat /proc/sys/kernel/random/boot_id; systemctl is-system-running --wait")
        if said.ok and said.output.split()[0] != before:
            return
    raise AssertionError(f"{node} did not boot again within {_BOOT} s: {said.end}")


def verify_until_passed(project: Project) -> None:
    """Verify again and again until it passes, or fail after the time in which slurmctld asks its nodes for their state."""
    deadline = time.monotonic() + _REGISTERED
    while not (said := project.rackwright("verify", project.stack, timeout=1800)).ok and time.monotonic() < deadline:
        time.sleep(10)
    assert said.ok, said.end


def boot_id(project: Project, node: str) -> str:
    """Return the id of the guest's boot."""
    return project.ssh(node, "cat /proc/sys/kernel/random/boot_id").output.strip()
