"""Drift of a lab: a refresh finds and reports it, and the next `up` repairs it."""

from __future__ import annotations

import json
import subprocess

import pytest
from support.project import Project


def _podman(*arguments: str) -> None:
    subprocess.run(["podman", *arguments], check=True, capture_output=True)


def test_up_repairs_stopped_slurmd_and_edited_slurm_conf(healthy: Project) -> None:
    healthy.ssh("worker1", "systemctl stop slurmd")
    healthy.ssh("login0", "sed -i s/gpu:h100:8/gpu:h100:7/ /etc/slurm/slurm.conf")
    seen = healthy.run_checked("refresh")
    assert "slurm.conf" in seen.output
    assert "worker1: scheduler" in seen.output and "would change" in seen.output, seen.output
    assert "slurm.node_daemon_runs[worker1] failed" in seen.output, seen.output
    resources = healthy.resources()
    assert resources["converge"]["outputs"]["converged"] is False
    assert resources["verification"]["outputs"]["verdict"] != "passed"
    assert healthy.rackwright("status", healthy.stack).status in (1, 3)
    healthy.run_checked("up")
    assert healthy.ssh("worker1", "systemctl is-active slurmd").output.strip() == "active"
    assert healthy.report()["verdict"] == "passed"
    assert "gpu:h100:7" not in healthy.ssh("login0", "cat /etc/slurm/slurm.conf").output


def test_up_recreates_deleted_node(healthy: Project) -> None:
    before = healthy.incarnations()["worker1"]
    _podman("rm", "--force", "--time", "0", f"{healthy.stack}-worker1")
    assert "worker1" in healthy.run_checked("refresh").output
    healthy.run_checked("up")
    assert healthy.incarnations()["worker1"] != before
    assert healthy.as_user("srun -w worker1 --gres=gpu:8 hostname").output.strip() == "worker1"
    assert healthy.report()["verdict"] == "passed"


def test_up_with_refresh_starts_stopped_nodes(healthy: Project) -> None:
    for node in ("worker1", "storage0"):
        _podman("stop", "--time", "3", f"{healthy.stack}-{node}")
    healthy.run_checked("up", "--refresh")
    assert healthy.report()["verdict"] == "passed"
    assert healthy.ssh("login0", "timeout 5 ls /mnt/sharedfs").ok
    assert healthy.as_user("srun -w worker1 hostname").output.strip() == "worker1"


def test_verify_reports_paused_node_as_unknown(healthy: Project) -> None:
    _podman("pause", f"{healthy.stack}-worker1")
    said = healthy.rackwright("verify", healthy.stack, "--json")
    _podman("unpause", f"{healthy.stack}-worker1")
    assert said.status == 3, said.output
    report = json.loads(said.output)
    green = {check["id"] for check in report["checks"] if check["node"] == "worker1" and check["verdict"] == "passed"}
    assert {check.split(".")[0] for check in green} <= {"slurm", "fabric"}, "only the controller and the fabric tell of it"
    assert {check["verdict"] for check in report["checks"] if check["node"] == "worker0"} == {"passed"}
    healthy.run_checked("up", "--refresh")


def test_up_with_refresh_unpauses_server(healthy: Project) -> None:
    _podman("pause", f"{healthy.stack}-storage0")
    healthy.run_checked("up", "--refresh")
    assert healthy.ssh("login0", "timeout 5 ls /mnt/sharedfs").ok
    assert healthy.report()["verdict"] == "passed"


@pytest.mark.essential
def test_drift_scan_of_healthy_cluster_finds_nothing(healthy: Project) -> None:
    said = healthy.rackwright("drift", healthy.stack, "--json")
    found = json.loads(said.output[said.output.index("{") :])
    assert (said.status, found["state"], found["differences"]) == (0, "clean", []), said.end
    assert {layer["layer"]: layer["unknown"] for layer in found["layers"]} == {"resources": [], "configuration": [], "behaviour": []}


def test_second_scan_replays_module_queries_and_detects_changes(healthy: Project) -> None:
    ways = [_message(healthy), _message(healthy)]
    assert "nodes answer as on" in ways[1], ways
    assert healthy.ssh("worker1", "echo '192.0.2.9 other-host' >> /etc/hosts").ok
    said = healthy.rackwright("drift", healthy.stack, "--json")
    assert "worker1 returns a different result for" in said.output, said.end
    healthy.run_checked("up", "--refresh")


def _message(project: Project) -> str:
    """Return the method of the configuration scan, and its reason."""
    said = project.rackwright("drift", project.stack, "--json")
    assert said.ok, said.end
    return next(
        layer["message"] for layer in json.loads(said.output[said.output.index("{") :])["layers"] if layer["layer"] == "configuration"
    )


@pytest.mark.essential
def test_drift_reports_and_reconciles_differences_in_each_layer(healthy: Project) -> None:
    assert healthy.ssh("worker1", "sudo systemctl stop munge").ok
    _podman("stop", "--time", "3", f"{healthy.stack}-worker0")
    _podman("volume", "create", "--label", f"rackwright.stack={healthy.stack}", f"{healthy.stack}-unmanaged")
    said = healthy.rackwright("drift", healthy.stack, "--json")
    found = json.loads(said.output[said.output.index("{") :])
    named = {(one["layer"], one["node"], one["subject"]) for one in found["differences"]}
    assert ("resources", "worker0", "node.status") in named, said.end
    assert ("resources", "", f"volume {healthy.stack}-unmanaged.unmanaged") in named, said.end
    _podman("volume", "rm", f"{healthy.stack}-unmanaged")
    assert ("configuration", "worker1", "scheduler.Run MUNGE") in named, said.end
    assert ("behaviour", "worker1", "munge.service_runs") in named, said.end
    assert (said.status, found["state"]) == (3, "unknown"), "who cannot be asked is not green"
    assert {one["node"] for layer in found["layers"] for one in layer["unknown"]} >= {"worker0"}
    healed = healthy.rackwright("drift", healthy.stack, "--reconcile", "all", timeout=1800)
    assert healed.status == 0 and "reconciling all layers" in healed.output and "clean" in healed.output, healed.end
    past = json.loads(healthy.rackwright("drift-history", healthy.stack, "--json").output)
    healed_at = {one["subject"]: one["resolved"] for one in past["differences"]}
    assert healed_at["munge.service_runs"] and healed_at["node.status"], past


def test_ignored_difference_is_expected(healthy: Project) -> None:
    allowed = {"subject": "*", "node": "worker1", "reason": "munge is under repair", "until": "2999-12-31"}
    healthy.edit(lambda cluster: cluster.update(drift={"ignore": [allowed]}))
    assert healthy.ssh("worker1", "sudo systemctl stop munge").ok
    said = healthy.rackwright("drift", healthy.stack, "--json")
    found = json.loads(said.output[said.output.index("{") :])
    assert {one["category"] for one in found["differences"] if one["node"] == "worker1"} == {"expected"}, said.end
    healthy.edit(lambda cluster: cluster.pop("drift"))
    healthy.run_checked("up", "--refresh")
