"""A virtual machine from a clean clone: verified, restored, rebooted, and deleted without a trace."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.project import Project, clone

_BOOT = 900
"""Seconds for an emulated machine to come back after a reboot."""
_REGISTERED = 300
"""Seconds in which slurmctld, itself rebooted, asks each node for its state: at intervals of a third of SlurmdTimeout (slurm.conf(5))."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield one virtual machine, up and verified."""
    if shutil.which("qemu-system-x86_64") is None:
        pytest.fail("QEMU is not installed: these tests make virtual machines (`sudo apt install qemu-system-x86 qemu-utils`)")
    project = clone(tmp_path_factory.mktemp("vm") / "checkout", like="lab-vm-small")
    try:
        project.run_checked("up", timeout=3600)
        yield project
        project.run_checked("destroy", timeout=900)
        assert processes(project) == [] and not machines(project).exists()
    finally:
        project.rackwright("down", project.stack, "--by-label")
        project.remove()


def machines(project: Project) -> Path:
    """Return the folder of the stack's machines."""
    return project.home / ".machines" / project.stack


def processes(project: Project) -> list[int]:
    """Return the processes that run in the stack's folders."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(place / "cwd")).is_relative_to(machines(project)):
                found.append(int(place.name))
        except OSError:
            continue
    return found


def process_of(project: Project, node: str) -> int:
    """Return the process of a machine."""
    row = json.loads((machines(project) / "nodes" / node / "process.json").read_text())
    return int(row["pid"])


def boot_id(project: Project) -> str:
    """Return the id of the guest's boot."""
    return project.ssh("login0", "cat /proc/sys/kernel/random/boot_id").output.strip()


def test_up_ends_with_a_verified_machine(stack: Project) -> None:
    report = stack.report()
    assert report["verdict"] == "passed", report["totals"]
    assert stack.ssh("login0", "systemd-detect-virt --vm").output.strip() in ("qemu", "kvm")


def test_second_up_changes_nothing(stack: Project) -> None:
    said = stack.run_checked("up")
    assert "unchanged" in said.output and "updated" not in said.output


def test_jobs_are_confined_by_the_guests_kernel(stack: Project) -> None:
    said = stack.as_user("srun --gres=gpu:1 sh -c 'cat /dev/nvidia0 2>&1; cat /dev/nvidia1 2>&1; true'")
    assert "No such device or address" in said.output, said.end
    assert "Operation not permitted" in said.output, said.end


def test_reboot_of_the_guest_keeps_the_machine_and_everything_returns(stack: Project) -> None:
    before = boot_id(stack)
    stack.ssh("login0", "systemd-run --on-active=1 systemctl reboot")
    deadline = time.monotonic() + _BOOT
    while time.monotonic() < deadline:
        time.sleep(5)
        said = stack.ssh("login0", "cat /proc/sys/kernel/random/boot_id; systemctl is-system-running --wait")
        if said.ok and said.output.split()[0] != before:
            break
    assert boot_id(stack) != before
    deadline = time.monotonic() + _REGISTERED
    while not (said := stack.rackwright("verify", stack.stack, timeout=1800)).ok and time.monotonic() < deadline:
        time.sleep(10)
    assert said.ok, said.end


def test_killed_machine_is_restored_by_up(stack: Project) -> None:
    os.kill(process_of(stack, "login0"), signal.SIGKILL)
    said = stack.run_checked("up", timeout=3600)
    assert "login0" in said.output
    assert stack.report()["verdict"] == "passed"


def test_killed_network_is_restored_by_up(stack: Project) -> None:
    row = json.loads((machines(stack) / "network" / "process.json").read_text())
    os.kill(int(row["pid"]), signal.SIGKILL)
    stack.run_checked("up", timeout=3600)
    assert len(processes(stack)) == 2
