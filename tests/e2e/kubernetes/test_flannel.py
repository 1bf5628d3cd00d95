"""A lab with flannel: up and verified with pods, a second `up` without changes, a worker added and removed, one lost, destroy."""

from __future__ import annotations

import json
import subprocess

import pytest
from support.kubernetes import kubectl
from support.project import Project

pytestmark = [pytest.mark.podman, pytest.mark.engine]


STACK = "lab-k8s-flannel"


def passed(lab: Project) -> set[str]:
    """Return the passed checks of the recorded report."""
    return {check["id"] for check in lab.report()["checks"] if check["verdict"] == "passed"}


def test_up_passes_every_check_with_pods(lab: Project) -> None:
    report = lab.report()
    assert (report["verdict"], report["level"]) == ("passed", "smoke")
    owed = {f"podnetwork.{name}[{node}]" for name in _CHECKS for node in ("login0", "worker0", "worker1")}
    assert passed(lab) >= owed | {"pods.reach_each_other[worker0]", "pods.service_answers[worker1]", "pods.find_names_inside[worker0]"}


_CHECKS = ("agent_runs", "node_cidr_configured", "tunnel_matches_plan", "reaches_other_nodes", "mtu_matches_plan")


def test_second_up_changes_nothing(lab: Project) -> None:
    said = lab.run_checked("up")
    assert "unchanged" in said.output and "created" not in said.output and "updated" not in said.output, said.output


def test_refresh_changes_nothing(lab: Project) -> None:
    said = lab.run_checked("refresh")
    assert "warning" not in said.output and "updated" not in said.output, said.output


def test_other_nodes_follow_added_and_removed_worker(lab: Project) -> None:
    def count(workers: int) -> None:
        lab.edit(lambda cluster: cluster["groups"]["worker"].update(count=workers))

    count(3)
    lab.run_checked("up", timeout=3000)
    assert "podnetwork.reaches_other_nodes[worker2]" in passed(lab)
    theirs = kubectl(lab, "get node worker2 -o jsonpath={.spec.podCIDR}").strip()
    assert "dev flannel.1" in lab.ssh("worker0", f"ip route show {theirs}").output
    count(2)
    lab.run_checked("up", timeout=3000)
    assert lab.ssh("worker0", f"ip route show {theirs}").output.strip() == ""


def test_up_recreates_lost_worker(lab: Project) -> None:
    """The recreated worker is another node for the cluster; its pod range may differ."""
    subprocess.run(["podman", "rm", "--force", "--time", "0", f"{lab.stack}-worker1"], check=True, capture_output=True, timeout=3000)
    lab.run_checked("up", "--refresh", timeout=3000)
    found = json.loads(kubectl(lab, "get nodes -o json"))["items"]
    assert lab.report()["verdict"] == "passed"
    assert len({node["spec"]["podCIDR"] for node in found}) == len(found) == 3


def test_destroy_leaves_nothing(lab: Project) -> None:
    lab.run_checked("destroy")
    assert lab.leftovers() == []
