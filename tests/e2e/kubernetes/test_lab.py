"""A lab with Kubernetes: up and verified, pods with GPUs, a worker added and removed, faults reported and repaired, destroy."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from faults.fault_table import faults
from faults.lab import open_lab
from support.kubernetes import create_as, failed_checks, kubectl, verify_until_passed
from support.project import Project

from rackwright.catalog.kubernetes import own_image

from .conftest import machine_settings

STACK = "lab-k8s"
ACCEPTED = ("kubernetes_health", "shared_file_system", "task_placement", "gpu_allocation")
_POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: research}}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {{kubernetes.io/hostname: worker0}}
  containers: [{{name: it, image: "{image}", args: [sleep, "600"], resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}]
"""


@pytest.mark.essential
def test_up_passes_every_check(lab: Project) -> None:
    report = lab.report()
    assert (report["verdict"], report["level"]) == ("passed", "smoke")
    assert {check["id"].partition(".")[0] for check in report["checks"]} >= {"kubernetes", "kubelet", "etcd", "control_plane", "pods"}


@pytest.mark.essential
def test_nodes_create_no_shared_cgroup_hierarchy(lab: Project, settings_before: dict[str, str]) -> None:
    assert machine_settings()["hierarchies"] == settings_before["hierarchies"]


@pytest.mark.essential
def test_second_up_changes_nothing(lab: Project) -> None:
    said = lab.run_checked("up")
    assert "unchanged" in said.output and "created" not in said.output and "updated" not in said.output, said.output


def test_refresh_changes_nothing(lab: Project) -> None:
    said = lab.run_checked("refresh")
    assert "warning" not in said.output and "updated" not in said.output, said.output


@pytest.mark.essential
def test_drift_scan_finds_nothing(lab: Project) -> None:
    for how in ("check mode ran", "nodes answer as on"):
        said = lab.rackwright("drift", lab.stack)
        assert said.ok and how in said.output, said.end


@pytest.mark.essential
def test_user_runs_pod_on_all_gpus(lab: Project) -> None:
    image = own_image("probe")
    for name, gpus in (("eight", 8), ("ninth", 1)):
        create_as(lab, "alice", _POD.format(name=name, gpus=gpus, image=image))
        if name == "eight":
            assert "condition met" in kubectl(lab, "-n research wait --for=condition=Ready --timeout=280s pod/eight")
    try:
        devices = json.loads(kubectl(lab, "-n research exec eight -- /usr/local/bin/probe devices").splitlines()[0])
        assert devices["files"] == [f"/dev/nvidia{number}" for number in range(8)]
        assert "condition met" in kubectl(
            lab, "-n research wait --for=jsonpath={.status.conditions[0].reason}=Unschedulable --timeout=280s pod/ninth"
        )
        assert "Insufficient nvidia.com/gpu" in kubectl(lab, "-n research get pod ninth -o jsonpath={.status.conditions[0].message}")
    finally:
        kubectl(lab, "-n research delete pod eight ninth --ignore-not-found --force --grace-period=0")


def test_acceptance_passes_and_reports_read_only_mount(lab: Project) -> None:
    said = lab.rackwright("acceptance", lab.stack, "--level", "smoke")
    assert said.ok, said.end
    report = json.loads((lab.home / lab.stack / "acceptance.json").read_text())
    phases = {phase["name"]: phase["verdict"] for phase in report["phases"]}
    assert {name: phases[name] for name in ACCEPTED} == dict.fromkeys(ACCEPTED, "passed"), said.output
    uids = {check["found"] for check in report["checks"] if "job_runs_as_its_user" in check["id"]}
    assert uids == {"uid 2001"}, said.output
    assert "No resources found" in kubectl(lab, "-n research get jobs,pods,services")
    assert lab.ssh("worker1", "mount -o remount,bind,ro /mnt/sharedfs").ok
    try:
        said = lab.rackwright("acceptance", lab.stack, "--phase", "shared-file-system")
        report = json.loads((lab.home / lab.stack / "acceptance.partial.json").read_text())
        failed = {check["id"] for check in report["checks"] if check["verdict"] == "failed"}
        assert said.status == 1 and "shared_file_system.writable[worker1]" in failed, said.output
    finally:
        assert lab.ssh("worker1", "mount -o remount,bind,rw /mnt/sharedfs").ok


@pytest.mark.parametrize(
    "key", ["kubernetes.network_matches_plan", "kubernetes.not_reachable_externally", "control_plane.secrets_are_encrypted"]
)
def test_fault_fails_exactly_its_check(lab: Project, key: str, tmp_path: Path) -> None:
    """`make faults` runs the same test for every check."""
    open_lab(lab.home / lab.stack, tmp_path).turns_red_by(faults()[key])


@pytest.mark.parametrize(
    ("node", "harm", "mend", "named"),
    [
        ("worker1", "systemctl stop kubelet", "systemctl start kubelet", "kubelet.runs[worker1]"),
        (
            "worker0",
            "cp /etc/cni/net.d/10-rackwright.conflist /run/kept && sed -i s/cni0/cni9/ /etc/cni/net.d/10-rackwright.conflist",
            "cp /run/kept /etc/cni/net.d/10-rackwright.conflist",
            "kubernetes.network_matches_plan[worker0]",
        ),
    ],
    ids=["kubelet", "cni"],
)
def test_verify_reports_faults(lab: Project, node: str, harm: str, mend: str, named: str) -> None:
    assert lab.ssh(node, harm).ok
    try:
        assert named in failed_checks(lab)
    finally:
        assert lab.ssh(node, mend).ok
    assert verify_until_passed(lab) == {}


def test_worker_is_added_and_removed(lab: Project) -> None:
    def count(workers: int) -> None:
        lab.edit(lambda cluster: cluster["groups"]["worker"].update(count=workers))

    count(3)
    lab.run_checked("up", timeout=3000)
    assert "worker2" in kubectl(lab, "get nodes")
    count(2)
    lab.run_checked("up", timeout=3000)
    assert "worker2" not in kubectl(lab, "get nodes") and "worker2" not in lab.incarnations()


def test_up_recreates_lost_nodes_with_cluster_state(lab: Project) -> None:
    assert "created" in kubectl(lab, "create configmap kept --from-literal=a=b")
    for node in ("login0", "worker1"):
        subprocess.run(["podman", "rm", "--force", "--time", "0", f"{lab.stack}-{node}"], check=True, capture_output=True, timeout=3000)
    lab.run_checked("up", "--refresh", timeout=3000)
    assert "kept" in kubectl(lab, "get configmap kept")
    assert lab.report()["verdict"] == "passed"


@pytest.mark.essential
def test_destroy_restores_machine(lab: Project, settings_before: dict[str, str]) -> None:
    lab.run_checked("destroy")
    assert lab.leftovers() == []
    after = machine_settings()
    changed = {name: (before, after.get(name)) for name, before in settings_before.items() if after.get(name) != before}
    assert not changed
