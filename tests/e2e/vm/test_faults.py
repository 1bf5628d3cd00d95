"""Faults that need a kernel, disk, clock or network of a node's own, in four virtual machines: each is named on its node, and removed.

Faults that do not hide each other are set together, because each verification of emulated machines takes minutes.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from faults.fault_table import faults
from support.project import Project
from support.virtual_machines import boot_id, folder, process_of, virtual_machines
from support.waiting import wait_for

from rackwright.drivers.vm import qmp
from rackwright.drivers.vm.network import client

UP = 7200
"""Seconds in which `up` may create, configure and verify four emulated machines; 620 on two cores."""
SLOW_LEAF_MBPS = 5.0
"""A fifth of the rail's planned rate; acceptance requires half."""
SLOW_DISK = {"bps_wr": 2048}
"""Two seconds for a write of 4 KiB. The limit is 0.1 s, and up to 1.5 s on an emulated processor."""
_UNLIMITED = dict.fromkeys(("bps", "bps_rd", "bps_wr", "iops", "iops_rd", "iops_wr"), 0)
HANG = """set -e
cat > /etc/systemd/system/hang.service <<'END'
[Unit]
DefaultDependencies=no
Before=sysinit.target
ConditionPathExists=!/var/lib/hung
[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=sh -c 'touch /var/lib/hung; sync; sleep infinity'
[Install]
WantedBy=sysinit.target
END
systemctl enable hang.service
nohup sh -c 'sleep 1; systemctl reboot' > /dev/null 2>&1 &
"""
"""Reboots the node, and holds the next boot before any other service. The boot after that is an ordinary one."""


_UNREADABLE_BLOCK = faults()["node.no_disk_errors"]


@dataclass(frozen=True)
class Fault:
    """Commands on a node, or a change of a port, cable or switch; and the check that must fail."""

    node: str
    check: str
    commands: str = ""
    undo: str = ""
    link: str = ""
    change: Mapping[str, float] = field(default_factory=dict)
    disk: Mapping[str, int] = field(default_factory=dict)
    """Limits of the node's first disk (QMP, block_set_io_throttle)."""


FAULTS = {
    "full_disk": Fault(
        "storage0",
        "node.disk_space",
        commands="fallocate -l $(df --output=avail -B1 / | tail -n 1) /var/tmp/full || [ -s /var/tmp/full ]",
        undo="rm -f /var/tmp/full",
    ),
    "wrong_clock": Fault(
        "storage0",
        "node.clock_synchronized",
        commands="systemctl stop chrony && date -s '+1 hour'",
        undo="date -s '-1 hour' && systemctl start chrony",
    ),
    "less_memory": Fault(  # Blocks in use do not go offline: one of the movable ones does.
        "worker0",
        "node.memory_matches_plan",
        commands=(
            "for state in /sys/devices/system/memory/memory*/state; do (echo offline > $state) 2>/dev/null && exec true; done; exit 1"
        ),
        undo="grep -l offline /sys/devices/system/memory/memory*/state | while read state; do echo online > $state; done",
    ),
    "rail_without_rdma": Fault(
        "worker1", "fabric.adapters_are_present", commands="rdma link delete rxe1", undo="systemctl restart rackwright-roce"
    ),
    "smaller_frames_on_a_leaf": Fault("worker0", "fabric.rails_carry_full_frames", link="leaf-01", change={"mtu": 1500}),
    "lossy_link": Fault("worker0", "node.no_packet_loss", link="worker0.eth0", change={"loss": 0.1}),
    "slow_disk": Fault("worker1", "node.disk_responds_in_time", disk=SLOW_DISK),
    "failing_disk": Fault("login0", "node.no_disk_errors", commands=_UNREADABLE_BLOCK.apply, undo=_UNREADABLE_BLOCK.undo),
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a login node, two workers with rails and a storage node, up and verified."""
    with virtual_machines(tmp_path_factory.mktemp("faults") / "checkout", "lab-vm", up=UP) as project:
        yield project


def verify(project: Project) -> set[str]:
    """Return the checks that fail, by `check[node]`."""
    project.rackwright("verify", project.stack, "--level", "checks", timeout=3600)
    return {one["id"] for one in project.report()["checks"] if one["verdict"] == "failed"}


def limit_disk(project: Project, node: str, **limits: int) -> None:
    """Limit what the node's first disk completes per second; without limits, remove them."""
    machine = folder(project, "nodes", node)
    device = qmp.execute(machine, "query-block")[0]["qdev"]
    qmp.execute(machine, "block_set_io_throttle", id=device, **{**_UNLIMITED, **limits})


class TestFaultsTogether:
    @pytest.fixture(scope="class")
    @classmethod
    def failed(cls, stack: Project) -> Iterator[set[str]]:
        """Set all faults; yield the checks that fail; then remove the faults and find that all checks pass."""
        for fault in FAULTS.values():
            if fault.disk:
                limit_disk(stack, fault.node, **fault.disk)
            elif fault.link:
                client.set_link(folder(stack, "network"), fault.link, **fault.change)
            else:
                said = stack.ssh(fault.node, fault.commands)
                assert said.ok, said.end
        yield verify(stack)
        for fault in FAULTS.values():
            if fault.disk:
                limit_disk(stack, fault.node)
            if fault.undo:
                said = stack.ssh(fault.node, fault.undo)
                assert said.ok, said.end
        stack.run_checked("up", timeout=UP)
        assert stack.rackwright("verify", stack.stack, "--level", "checks", timeout=3600).ok

    @pytest.mark.parametrize("name", FAULTS)
    def test_fault_is_named_on_its_node(self, failed: set[str], name: str) -> None:
        fault = FAULTS[name]
        assert f"{fault.check}[{fault.node}]" in failed, sorted(failed)


def test_slow_leaf_is_named_by_acceptance_and_drift(stack: Project) -> None:
    for cable in ("worker1.eth1", "worker1.eth2"):
        client.set_link(folder(stack, "network"), cable, rate_mbps=SLOW_LEAF_MBPS)
    measured = stack.rackwright("acceptance", stack.stack, "--phase", "rdma", timeout=3600)
    assert measured.status == 1 and "worker1" in measured.output, measured.end
    assert "worker1.eth1" in " ".join(one["live"] for one in differences(stack, "resources"))
    stack.run_checked("up", timeout=UP)
    assert stack.rackwright("acceptance", stack.stack, "--phase", "rdma", timeout=3600).ok


def test_panicked_kernel_is_drift_and_up_boots_the_node_again(stack: Project) -> None:
    assert stack.ssh("worker1", "nohup sh -c 'sleep 1; echo c > /proc/sysrq-trigger' >/dev/null 2>&1 &").ok
    found = [one for one in differences(stack, "resources") if one["node"] == "worker1"]
    assert [(one["subject"], one["live"]) for one in found] == [("node.status", "panicked")]
    said = stack.run_checked("up", timeout=UP)
    assert "worker1" in said.output and stack.report()["verdict"] == "passed"


def test_node_that_hangs_at_boot_is_named_with_the_command_that_ends_it(stack: Project) -> None:
    before = process_of(stack, "nodes", "worker0")
    assert stack.ssh("worker0", HANG).ok
    console = folder(stack, "nodes", "worker0") / "console.log"
    wait_for(lambda: console.read_text(errors="replace"), lambda text: "hang.service" in text, timeout=1200, interval=5)
    said = stack.pulumi("up", "--refresh", timeout=UP)
    found = re.search(r"`kill (\d+)` ends it, and the next `up` starts it again", said.output)
    assert not said.ok and found and int(found[1]) == before, said.end
    os.kill(before, signal.SIGTERM)
    stack.run_checked("up", timeout=UP)
    assert stack.report()["verdict"] == "passed"


def test_silent_reboot_is_named_once_and_reconciled(stack: Project) -> None:
    """Slurm takes the node out of service (slurm.conf(5), ReturnToService=1): an administrator should find out why it rebooted."""
    assert stack.rackwright("drift", stack.stack, timeout=3600).ok
    before = boot_id(stack, "worker0")
    stack.ssh("worker0", "systemctl reboot")
    wait_for(lambda: boot_id(stack, "worker0"), lambda seen: seen not in ("", before), timeout=1200, interval=5)
    wait_for(lambda: stack.ssh("login0", "sinfo -hN -o %E -n worker0").output, lambda seen: "rebooted" in seen, timeout=1200, interval=5)
    found = [(one["node"], one["subject"]) for one in differences(stack, "behaviour")]
    assert ("worker0", "baseline.node boot") in found and ("worker0", "slurm.node_is_usable") in found, found
    assert stack.rackwright("drift", stack.stack, "--reconcile", "configuration", timeout=3600).ok


def differences(project: Project, layer: str) -> list[dict[str, Any]]:
    """Scan for drift; return the differences of a layer."""
    said = project.rackwright("drift", project.stack, "--json", timeout=3600)
    assert said.status in (1, 3), said.end
    return [one for one in json.loads(said.output[said.output.index("{") :])["differences"] if one["layer"] == layer]
