"""KEDA: verified, a Deployment that follows its work from zero and back, and the removal of the add-on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.kubernetes import create_as, kubectl, wait_for
from support.project import Project

from rackwright.catalog.kubernetes import own_image

pytestmark = [pytest.mark.podman, pytest.mark.engine]

STACK = "lab-k8s-keda"


def scaled(name: str) -> dict[str, Any]:
    """Return a Deployment of no pod, and a ScaledObject that gives it a pod for each pod with a label, up to two."""
    metadata = {"name": name, "namespace": "vision"}
    container = {"name": "it", "image": own_image("probe"), "args": ["sleep", "900"]}
    pod = {"metadata": {"labels": {"app": name}}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}}
    deployment = {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": pod}
    trigger = {"type": "kubernetes-workload", "metadata": {"podSelector": f"work={name}", "value": "1"}}
    spec = {"scaleTargetRef": {"name": name}, "minReplicaCount": 0, "maxReplicaCount": 2, "pollingInterval": 2, "cooldownPeriod": 2}
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment},
            {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": metadata, "spec": {**spec, "triggers": [trigger]}},
        ],
    }


def test_up_scales_a_deployment_from_zero_and_back(lab: Project) -> None:
    report = lab.report()
    assert report["verdict"] == "passed"
    found = [check["verdict"] for check in report["checks"] if check["id"].startswith("pods.scaled_to_zero_and_back")]
    assert found == ["passed"]


def test_second_up_changes_nothing(lab: Project) -> None:
    said = lab.run_checked("up")
    assert "unchanged" in said.output and "created" not in said.output and "updated" not in said.output, said.output


def test_scaled_object_follows_its_work_and_keeps_its_addon(lab: Project) -> None:
    create_as(lab, "bob", json.dumps(scaled("follower")))
    try:
        for name in ("one", "two"):
            kubectl(lab, f"-n vision run {name} --image={own_image('probe')} --labels=work=follower -- /usr/local/bin/probe sleep 900")
        replicas = "-n vision get deployment follower -o jsonpath={.status.readyReplicas}"
        wait_for(lambda: kubectl(lab, replicas), lambda seen: seen == "2")  # the second by the autoscaler, through the metrics server
        kubectl(lab, "-n vision delete pod one two --wait=true")
        wait_for(lambda: kubectl(lab, "-n vision get deployment follower -o jsonpath={.spec.replicas}"), lambda seen: seen == "0")
        lab.edit(lambda cluster: cluster["scheduler"].update(addons=[]))
        said = lab.pulumi("up", timeout=3000)
        assert not said.ok and "ScaledObject vision/follower" in said.output, said.output
    finally:
        kubectl(lab, "-n vision delete scaledobject/follower deployment/follower --wait=true")
        kubectl(lab, "-n vision delete pod one two --ignore-not-found --wait=true")


def test_undeclared_addon_is_removed_completely(lab: Project) -> None:
    lab.run_checked("up", timeout=3000)
    kinds = "crd,clusterrole,clusterrolebinding,apiservice"
    wait_for(lambda: kubectl(lab, f"get {kinds} -A -l rackwright.addon/name -o name"), lambda seen: seen == "")
    wait_for(lambda: kubectl(lab, "get namespace keda"), lambda seen: "not found" in seen)
    assert lab.report()["verdict"] == "passed"
