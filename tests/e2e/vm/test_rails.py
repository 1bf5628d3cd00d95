"""Rails between virtual machines: verified, two ways of pulling a cable, a dead spine that stops nothing, and jobs with RDMA.

Never run: written without a machine for four virtual machines.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.project import Project, clone

from rackwright.drivers.vm import qmp
from rackwright.drivers.vm.network import client

SPINE = ("leaf-01.3-spine-01.1", "leaf-02.3-spine-01.2")
"""The cables of the first spine."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield two workers with rails, up and verified."""
    if shutil.which("qemu-system-x86_64") is None:
        pytest.fail("QEMU is not installed: these tests make virtual machines (`sudo apt install qemu-system-x86 qemu-utils`)")
    project = clone(tmp_path_factory.mktemp("rails") / "checkout", like="lab-vm")
    try:
        project.run_checked("up", timeout=7200)
        yield project
        project.run_checked("destroy", timeout=900)
    finally:
        project.rackwright("down", project.stack, "--by-label")
        project.remove()


def folder(project: Project, *parts: str) -> Path:
    """Return a folder of the stack's machines."""
    return project.home.joinpath(".machines", project.stack, *parts)


def red(project: Project) -> set[str]:
    """Return the checks of the fabric that fail, by `check[node]`."""
    project.rackwright("verify", project.stack, timeout=1800)
    results: list[dict[str, Any]] = project.report()["results"]
    return {one["id"] for one in results if one["id"].startswith("fabric.") and one["verdict"] == "failed"}


def test_rails_are_verified(stack: Project) -> None:
    report = stack.report()
    assert report["verdict"] == "passed", report["totals"]
    passed = {one["id"] for one in report["results"] if one["verdict"] == "passed"}
    for check in ("ports_are_active", "rail_addresses_match_plan", "rails_carry_full_frames", "gids_match_plan"):
        assert {f"fabric.{check}[worker0]", f"fabric.{check}[worker1]"} <= passed


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
    stack.run_checked("up", timeout=3600)
    assert red(stack) == set()


def test_dead_spine_is_drift_and_stops_nothing(stack: Project) -> None:
    for cable in SPINE:
        client.set_link(folder(stack, "network"), cable, up=False)
    assert red(stack) == set()
    said = stack.rackwright("drift", stack.stack, timeout=1800)
    assert all(cable in said.output for cable in SPINE), said.end
    stack.run_checked("up", timeout=3600)
    assert client.status(folder(stack, "network"))["differences"] == []


def test_pairs_reach_half_of_the_rate(stack: Project) -> None:
    said = stack.rackwright("acceptance", stack.stack, "--phase", "rdma", timeout=3600)
    assert said.ok, said.end
