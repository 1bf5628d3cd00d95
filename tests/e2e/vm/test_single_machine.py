"""One virtual machine from a clean clone: verified, restored, rebooted, and deleted without a trace."""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.busy_host import busy_host
from support.project import Project
from support.virtual_machines import boot_id, folder, process_of, processes, reboot, verify_until_passed, virtual_machines

from rackwright.drivers.vm import machine

_BUSY = 180
"""Seconds. The kernel panicked after 16 with QEMU 7.2 and after 65 with 10.0, with a thread for each emulated processor."""
_CHANGES = 500
"""Changes of the kernel's code that were made in that time at least: a few per second of the share that is left."""
CHANGE_KERNEL_CODE = """
import os
def pass_bytes(read, write):
    while True:
        os.write(write, os.read(read, 1))
for _ in range(3):
    (a, b), (c, d) = os.pipe(), os.pipe()
    if os.fork() == 0:
        pass_bytes(a, d)
    if os.fork() == 0:
        os.write(b, b'x')
        pass_bytes(c, b)
switch = os.open('/proc/sys/kernel/sched_schedstats', os.O_WRONLY)
for change in range(1, 1000000):
    os.pwrite(switch, str(change % 2).encode(), 0)
    open('/run/changes', 'w').write(str(change))
"""
"""Each value of kernel.sched_schedstats changes jumps in the scheduler (a jump label), which runs at each byte that processes pass."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield one virtual machine, up and verified."""
    with virtual_machines(tmp_path_factory.mktemp("vm") / "checkout", "lab-vm-small", up=3600) as project:
        yield project


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


def test_processor_keeps_the_flags_that_an_instruction_must_not_change(stack: Project) -> None:
    program = (Path(__file__).parents[2] / "support/processor_flags.py").read_text(encoding="utf-8")
    said = stack.ssh("login0", f"python3 -c {shlex.quote(program)}")
    assert said.output.strip() in ("no cmpxchg16b", "changed flags: 0x0"), said.end


def test_kernel_that_changes_its_code_survives_on_a_busy_machine(stack: Project) -> None:
    before = boot_id(stack, "login0")
    stack.ssh("login0", f'systemd-run --unit=change-code python3 -c "{CHANGE_KERNEL_CODE}"')
    try:
        with busy_host(process_of(stack, "nodes", "login0")):
            time.sleep(_BUSY)
        assert machine.look(folder(stack, "nodes", "login0")).status == machine.RUNNING
        assert int(stack.ssh("login0", "cat /run/changes").output) > _CHANGES
        assert boot_id(stack, "login0") == before
    finally:
        stack.ssh("login0", "systemctl stop change-code; sysctl -q kernel.sched_schedstats=0")


def test_reboot_of_the_guest_keeps_the_machine_and_everything_returns(stack: Project) -> None:
    reboot(stack, "login0")
    verify_until_passed(stack)


def test_killed_machine_is_restored_by_up(stack: Project) -> None:
    os.kill(process_of(stack, "nodes", "login0"), signal.SIGKILL)
    said = stack.run_checked("up", timeout=3600)
    assert "login0" in said.output
    assert stack.report()["verdict"] == "passed"


def test_killed_network_is_restored_by_up(stack: Project) -> None:
    os.kill(process_of(stack, "network"), signal.SIGKILL)
    stack.run_checked("up", timeout=3600)
    assert len(processes(stack)) == 2
