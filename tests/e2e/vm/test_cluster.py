"""Four virtual machines with two rails, from a clean clone: verified, restored, rebooted one by one, with and without their cables."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from support.project import Project
from support.virtual_machines import boot_id, folder, process_of, virtual_machines

from rackwright.drivers.vm import qmp
from rackwright.drivers.vm.network import client

SPINE = ("leaf-01.3-spine-01.1", "leaf-02.3-spine-01.2")
"""The cables of the first spine."""
UP = 7200
"""Seconds in which `up` may create, configure and verify four emulated machines; 620 on two cores."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a login node, two workers with rails and a storage node, up and verified."""
    with virtual_machines(tmp_path_factory.mktemp("cluster") / "checkout", "lab-vm", up=UP) as project:
        yield project


def red(project: Project) -> set[str]:
    """Verify; return the checks of the fabric that fail, by `check[node]`."""
    project.rackwright("verify", project.stack, timeout=1800)
    checks: list[dict[str, Any]] = project.report()["checks"]
    return {one["id"] for one in checks if one["id"].startswith("fabric.") and one["verdict"] == "failed"}


def test_up_ends_with_verified_machines_and_rails(stack: Project) -> None:
    report = stack.report()
    assert report["verdict"] == "passed", report["totals"]
    passed = {one["id"] for one in report["checks"] if one["verdict"] == "passed"}
    for check in ("ports_are_active", "rail_addresses_match_plan", "rails_carry_full_frames", "gids_match_plan"):
        assert {f"fabric.{check}[worker0]", f"fabric.{check}[worker1]"} <= passed


def test_second_up_changes_nothing(stack: Project) -> None:
    said = stack.run_checked("up", timeout=UP)
    assert "unchanged" in said.output and "updated" not in said.output


def test_drift_is_clean(stack: Project) -> None:
    said = stack.rackwright("drift", stack.stack, timeout=1800)
    assert said.ok, said.end


def test_pairs_reach_half_of_the_rate(stack: Project) -> None:
    said = stack.rackwright("acceptance", stack.stack, "--phase", "rdma", timeout=3600)
    assert said.ok, said.end


def test_cable_pulled_at_the_node_takes_the_port_down(stack: Project) -> None:
    qmp.execute(folder(stack, "nodes", "worker1"), "set_link", name="eth2", up=False)
    try:
        assert "fabric.ports_are_active[worker1]" in red(stack)
    finally:
        qmp.execute(folder(stack, "nodes", "worker1"), "set_link", name="eth2", up=True)
    assert red(stack) == set()


def test_cable_pulled_in_the_network_keeps_the_carrier(stack: Project) -> None:
    client.set_link(folder(stack, "network"), "worker1.eth2", up=False)
    found = red(stack)
    assert "fabric.rails_carry_full_frames[worker1]" in found and "fabric.ports_are_active[worker1]" not in found
    stack.run_checked("up", timeout=UP)
    assert red(stack) == set()


def test_dead_spine_is_drift_and_stops_nothing(stack: Project) -> None:
    for cable in SPINE:
        client.set_link(folder(stack, "network"), cable, up=False)
    assert red(stack) == set()
    said = stack.rackwright("drift", stack.stack, timeout=1800)
    assert all(cable in said.output for cable in SPINE), said.end
    stack.run_checked("up", timeout=UP)
    assert client.status(folder(stack, "network"))["differences"] == []


def test_killed_worker_is_drift_and_up_restores_it(stack: Project) -> None:
    os.kill(process_of(stack, "nodes", "worker1"), signal.SIGKILL)
    said = stack.rackwright("drift", stack.stack, timeout=1800)
    assert "worker1" in said.output and not said.ok, said.end
    stack.run_checked("up", timeout=UP)
    assert stack.report()["verdict"] == "passed"


def test_rolling_update_reboots_each_worker(stack: Project) -> None:
    before = {node: boot_id(stack, node) for node in ("worker0", "worker1", "login0")}
    said = stack.rackwright("rolling-update", stack.stack, "--reboot", timeout=UP)
    assert said.ok, said.end
    after = {node: boot_id(stack, node) for node in before}
    assert [node for node in before if before[node] != after[node]] == ["worker0", "worker1"]
    assert red(stack) == set()
