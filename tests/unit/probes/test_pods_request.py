"""The request of a Kubernetes smoke run: what the program on the node is to run, from the plan."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from rackwright.checks.cluster.probes.pods import PODS, REMAINING_PODS, parse_pods
from rackwright.errors import UndeterminedError

CAPTURED = Path(__file__).parents[1] / "captured" / "pods" / "good.txt"
NODE = {"runs_workloads": True, "gpus": 8, "address": "10.0.0.1", "taints": ["gpu=yes:NoSchedule"]}
SCHEDULER = {
    "kind": "kubernetes",
    "probe_image": "rackwright.local/probe:1",
    "network": {"enforces_network_policy": False},
    "folders": [{"path": "/mnt/s/kubernetes/research"}],
    "nodes": [{"name": "login0", **NODE, "runs_workloads": False}, {"name": "w0", **NODE}, {"name": "w1", **NODE}],
    "namespaces": [{"name": "research"}],
    "objects": [
        {"kind": "Namespace", "metadata": {"name": "research", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}},
        {"kind": "ResourceQuota", "metadata": {"name": "quota", "namespace": "research"}, "spec": {"hard": {"pods": "40"}}},
    ],
}


def place(*, speaking=("login0", "w0", "w1"), clients=("login0", "w0", "w1"), **scheduler):
    """Return the controller of an invented plan."""
    cluster = {"scheduler": {**SCHEDULER, **scheduler}, "storage": [{"mount": "/mnt/s", "clients": list(clients)}], "network": {}}
    declared = SimpleNamespace(cluster=cluster, nodes=dict.fromkeys(["login0", "w0", "w1"]), members=lambda _: ("login0",))
    return SimpleNamespace(node={"name": "login0"}, declared=declared, is_reachable=lambda name: name in speaking)


def request(where):
    """Return the request to the program on the node."""
    return json.loads(shlex.split(PODS.command_at(where))[-1])


class TestRequest:
    def test_request_lists_responding_workers(self):
        assert [node["name"] for node in request(place())["nodes"]] == ["w0", "w1"]
        assert [node["name"] for node in request(place(speaking=("login0", "w1")))["nodes"]] == ["w1"]

    def test_request_copies_applied_namespaces(self):
        (found,) = request(place())["namespaces"]
        assert (found["name"], found["level"], found["hard"]) == ("research", "baseline", {"pods": "40"})

    def test_policies_are_tested_on_enforcing_networks(self):
        policy = {"kind": "NetworkPolicy", "metadata": {"name": "default-deny", "namespace": "research"}, "spec": {"podSelector": {}}}
        other = {**policy, "metadata": {"name": "default-deny", "namespace": "teaching"}}
        objects = [*SCHEDULER["objects"], policy, other]
        found = request(place(objects=objects, network={"enforces_network_policy": True}))["policies"]
        assert found == [{"name": "default-deny", "spec": {"podSelector": {}}}]
        assert request(place(objects=objects))["policies"] == []

    @pytest.mark.parametrize(
        ("key", "name"), [("groups", "leaderworkerset"), ("claims", "dra-example-driver"), ("balancers", "metallb"), ("scaling", "keda")]
    )
    def test_objects_of_addons_run_with_their_addon_only(self, key, name):
        assert request(place())[key] is False
        assert request(place(addons=[{"name": "jobset"}]))[key] is False
        assert request(place(addons=[{"name": "jobset"}, {"name": name}]))[key] is True

    def test_job_runs_with_its_addon_only(self):
        assert request(place(addons=[{"name": "trainer"}]))["training"] is None
        found = request(place(addons=[{"name": "training-operator"}], jobs="rackwright.local/jobs:1"))["training"]
        assert found["image"] == "rackwright.local/jobs:1" and "MASTER_ADDR" in found["program"]

    def test_storage_must_be_on_all_nodes(self):
        assert request(place())["storage"] == "/mnt/s"
        assert request(place(clients=("login0", "w0")))["storage"] is None
        assert request(place(folders=[]))["storage"] is None

    def test_missing_image_leaves_checks_unknown(self):
        with pytest.raises(UndeterminedError, match="no image for the checks"):
            PODS.command_at(place(probe_image=None))

    def test_ended_objects_are_matched_by_name(self):
        where = place()
        where.node = {"name": "worker0"}
        run = parse_pods(CAPTURED.read_text(encoding="utf-8"))
        where.earlier_result = lambda *_: run
        uid = run.data["nodes"]["worker0"]["plain"]["uid"]
        assert f"/var/lib/kubelet/pods/{uid}" in REMAINING_PODS.command_at(where)
