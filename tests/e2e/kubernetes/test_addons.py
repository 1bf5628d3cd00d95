"""Queues, job sets, groups of pods and metrics: verified, a job that waits and one that borrows, and the removal of an add-on."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from typing import Any

import pytest
from support.kubernetes import create_as, kubectl, run_on, wait_for
from support.project import Project

from rackwright.catalog.kubernetes import own_image
from rackwright.yaml_loader import load_yaml

pytestmark = [pytest.mark.podman, pytest.mark.engine]

STACK = "lab-k8s-addons"
ADDONS = ["kueue", "jobset", "training-operator", "leaderworkerset", "dra-example-driver", "metrics-server", "metallb"]
_QUEUE = "kueue.x-k8s.io/queue-name"


def pods(gpus: int, seconds: int, count: int = 1) -> dict[str, Any]:
    """Return a job of pods that use GPUs for a while."""
    limits = {"nvidia.com/gpu": str(gpus)}
    container = {"name": "it", "image": own_image("probe"), "args": ["sleep", str(seconds)], "resources": {"limits": limits}}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"parallelism": count, "completions": count, "backoffLimit": 0, "template": {"spec": pod}}


def job(name: str, namespace: str, gpus: int, seconds: int) -> dict[str, Any]:
    """Return a job for the namespace's queue."""
    metadata = {"name": name, "namespace": namespace, "labels": {_QUEUE: namespace}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": pods(gpus, seconds)}


def jobset(name: str, seconds: int) -> dict[str, Any]:
    """Return two pods with six GPUs each, which must start together."""
    metadata = {"name": name, "namespace": "research", "labels": {_QUEUE: "research"}}
    replicated = [{"name": "workers", "replicas": 1, "template": {"spec": pods(6, seconds, count=2)}}]
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": {"replicatedJobs": replicated}}


def pytorch_job(name: str) -> dict[str, Any]:
    """Return a job of one master and one worker of six GPUs each, for the queue of its namespace."""
    container = {"name": "pytorch", "image": own_image("probe"), "args": ["sleep", "5"], "resources": {"limits": {"nvidia.com/gpu": 6}}}
    replica = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    metadata = {"name": name, "namespace": "research", "labels": {_QUEUE: "research"}}
    spec = {"pytorchReplicaSpecs": {"Master": replica, "Worker": replica}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata, "spec": spec}


def group_of_pods(name: str) -> dict[str, Any]:
    """Return a set of one leader and one worker, each of which answers with its name."""
    container = {"name": "it", "image": own_image("probe"), "args": ["serve"]}
    template = {"spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}}
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
    metadata = {"name": name, "namespace": "research"}
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": metadata, "spec": spec}


def claim(name: str) -> str:
    """Return a pod that claims a device, and the template of its claim."""
    metadata = {"name": name, "namespace": "research"}
    requests = [{"name": "device", "exactly": {"deviceClassName": "gpu.example.com"}}]
    spec = {"spec": {"devices": {"requests": requests}}}
    template = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}
    container = {"name": "it", "image": own_image("probe"), "args": ["sleep", "900"], "resources": {"claims": [{"name": "device"}]}}
    claims = [{"name": "device", "resourceClaimTemplateName": name}]
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "resourceClaims": claims, "containers": [container]}
    return json.dumps(
        {"apiVersion": "v1", "kind": "List", "items": [template, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}]}
    )


def balanced(name: str) -> dict[str, Any]:
    """Return a pod that answers with its name, behind a load balancer."""
    metadata = {"name": name, "namespace": "research", "labels": {"app": name}}
    container = {"name": "it", "image": own_image("probe"), "args": ["serve"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}}
    spec = {"type": "LoadBalancer", "selector": {"app": name}, "ports": [{"port": 8080}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    return {"apiVersion": "v1", "kind": "List", "items": [pod, service]}


def autoscaler(deployment: str) -> dict[str, Any]:
    """Return an autoscaler by CPU, like that of the rendered model server."""
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 2, "metrics": [metric]}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": deployment, "namespace": "vision"},
        "spec": spec,
    }


def admitted(lab: Project, namespace: str, name: str) -> str:
    """Return Kueue's state of a job: `True`, or why it is not admitted."""
    found = json.loads(kubectl(lab, f"-n {namespace} get workloads.kueue.x-k8s.io -o json"))["items"]
    for one in found:
        if one["metadata"]["ownerReferences"][0]["name"] == name:
            conditions = {each["type"]: each for each in one.get("status", {}).get("conditions", [])}
            if conditions.get("Admitted", {}).get("status") == "True":
                return "True"
            return str(conditions.get("QuotaReserved", {}).get("message", "nothing is said yet"))
    return "there is no workload yet"


def test_up_passes_every_check(lab: Project) -> None:
    report = lab.report()
    assert report["verdict"] == "passed"
    found = {check["id"].partition("[")[0] for check in report["checks"] if check["id"].startswith("addons.")}
    assert found == {"addons.are_available", "addons.webhooks_respond", "addons.queues_match_plan", "addons.metrics_available"}
    pods = (
        ("pods.pytorch_job_runs", 1),
        ("pods.leader_worker_set_runs", 1),
        ("pods.claimed_device_is_given", 2),
        ("pods.load_balancer_answers", 1),
    )
    for name, count in pods:
        assert [check["verdict"] for check in report["checks"] if check["id"].startswith(name)] == ["passed"] * count


def test_second_up_changes_nothing(lab: Project) -> None:
    said = lab.run_checked("up")
    assert "unchanged" in said.output and "created" not in said.output and "updated" not in said.output, said.output


def test_refresh_changes_nothing(lab: Project) -> None:
    said = lab.run_checked("refresh")
    assert "warning" not in said.output and "updated" not in said.output, said.output


def test_kueue_admits_job_and_queues_job_over_quota(lab: Project) -> None:
    create_as(lab, "alice", json.dumps(job("first", "research", 8, 600)))
    wait_for(lambda: admitted(lab, "research", "first"), lambda seen: seen == "True")
    wait_for(lambda: kubectl(lab, "-n research get job first -o jsonpath={.status.ready}"), lambda seen: seen == "1")
    create_as(lab, "alice", json.dumps(job("second", "research", 8, 1)))
    wait_for(lambda: admitted(lab, "research", "second"), lambda seen: "insufficient" in seen and "nvidia.com/gpu" in seen)
    assert kubectl(lab, "-n research get job second -o jsonpath={.spec.suspend}") == "true"
    kubectl(lab, "-n research delete job first --wait=true")
    assert "condition met" in kubectl(lab, "-n research wait job/second --for=condition=Complete --timeout=280s")


def test_namespace_without_gpus_borrows_unused_ones(lab: Project) -> None:
    create_as(lab, "bob", json.dumps(job("small", "vision", 4, 1)))
    assert "condition met" in kubectl(lab, "-n vision wait job/small --for=condition=Complete --timeout=280s")
    create_as(lab, "alice", json.dumps(job("owner", "research", 8, 600)))
    wait_for(lambda: admitted(lab, "research", "owner"), lambda seen: seen == "True")
    create_as(lab, "bob", json.dumps(job("large", "vision", 8, 600)))
    wait_for(lambda: admitted(lab, "vision", "large"), lambda seen: seen == "True")  # 8 of 16, of which research lends its unused ones
    create_as(lab, "alice", json.dumps(job("mine", "research", 4, 1)))
    wait_for(lambda: admitted(lab, "research", "mine"), lambda seen: seen == "True")  # preempts the borrower
    wait_for(lambda: admitted(lab, "vision", "large"), lambda seen: seen != "True")
    kubectl(lab, "-n research delete job owner mine --wait=true")
    kubectl(lab, "-n vision delete job small large --wait=true")


def test_jobset_starts_its_pods_together(lab: Project) -> None:
    create_as(lab, "alice", json.dumps(jobset("pair", 3)))
    assert "condition met" in kubectl(lab, "-n research wait jobset/pair --for=condition=Completed --timeout=280s")


def test_pytorch_job_is_queued_and_ends(lab: Project) -> None:
    create_as(lab, "alice", json.dumps(pytorch_job("torch")))
    wait_for(lambda: admitted(lab, "research", "torch"), lambda seen: seen == "True")
    assert "condition met" in kubectl(lab, "-n research wait pytorchjob/torch --for=condition=Succeeded --timeout=280s")
    kubectl(lab, "-n research delete pytorchjob torch --wait=true")


def test_leader_and_worker_reach_each_other(lab: Project) -> None:
    create_as(lab, "alice", json.dumps(group_of_pods("group")))
    try:
        assert "condition met" in kubectl(lab, "-n research wait leaderworkerset/group --for=condition=Available --timeout=280s")
        for asking, asked in (("group-0-1", "group-0"), ("group-0", "group-0-1")):
            ask = f"-n research exec {asking} -- /usr/local/bin/probe get http://{asked}.group.research:8080/"
            wait_for(lambda ask=ask: kubectl(lab, ask), lambda seen, asked=asked: seen == asked)  # type: ignore[misc]
        leader = "-n research get pod group-0 --ignore-not-found -o jsonpath={.metadata.uid}"
        before = kubectl(lab, leader)
        kubectl(lab, "-n research delete pod group-0-1 --wait=true")  # a lost pod takes its group with it
        wait_for(lambda: kubectl(lab, leader), lambda seen: seen not in ("", before))
    finally:
        kubectl(lab, "-n research delete leaderworkerset group --wait=true")


def test_addon_with_claimed_device_is_not_removed(lab: Project) -> None:
    create_as(lab, "alice", claim("claims"))
    assert "condition met" in kubectl(lab, "-n research wait pod/claims --for=condition=Ready --timeout=280s")
    environment = kubectl(lab, "-n research exec claims -- /usr/local/bin/probe read /proc/self/environ")
    held = "-n research get resourceclaims -o jsonpath={.items[0].status.allocation.devices.results[0].device}"
    assert f"={kubectl(lab, held)}\0" in environment
    api_server = "-n kube-system get pod kube-apiserver-login0 -o jsonpath={.status.containerStatuses[0].containerID}"
    before = kubectl(lab, api_server)
    lab.edit(lambda cluster: cluster["scheduler"].update(addons=[name for name in ADDONS if name != "dra-example-driver"]))
    said = lab.pulumi("up", timeout=3000)
    assert not said.ok and "Pod research/claims" in said.output, said.output
    assert kubectl(lab, api_server) == before  # it serves an API version for the driver
    kubectl(lab, "-n research delete pod claims --wait=true")
    lab.edit(lambda cluster: cluster["scheduler"].update(addons=ADDONS))


def test_service_has_an_address_of_the_pool_and_keeps_its_addon(lab: Project) -> None:
    create_as(lab, "alice", json.dumps(balanced("web")))
    try:
        require_address(lab)
        lab.edit(lambda cluster: cluster["scheduler"].update(addons=ADDONS[:-1]))
        said = lab.pulumi("up", timeout=3000)
        assert not said.ok and "Service research/web" in said.output, said.output
    finally:
        kubectl(lab, "-n research delete service/web pod/web --wait=true")
        lab.edit(lambda cluster: cluster["scheduler"].update(addons=ADDONS))


def require_address(lab: Project) -> None:
    """Require that the Service has the first address of the pool, and answers there."""
    assert "condition met" in kubectl(lab, "-n research wait pod/web --for=condition=Ready --timeout=280s")
    address = "-n research get service web -o jsonpath={.status.loadBalancer.ingress[0].ip}"
    described = load_yaml(lab.stack_file.read_text())["config"]["rackwright:cluster"]
    first = str(IPv4Network(described["network"]["cidr"])[12])  # four addresses below the first group, whose addresses begin at 16
    assert wait_for(lambda: kubectl(lab, address), lambda seen: seen != "") == first
    wait_for(lambda: run_on(lab, f"curl -sS -m 5 http://{first}:8080/").output.strip(), lambda seen: seen == "web")


def test_metrics_server_serves_nodes_and_autoscaler(lab: Project) -> None:
    lines = kubectl(lab, "top nodes --no-headers").splitlines()
    assert sorted(line.split()[0] for line in lines) == ["login0", "worker0", "worker1"] and "unknown" not in " ".join(lines)
    made = kubectl(lab, f"-n vision create deployment idle --image={own_image('probe')} -- /usr/local/bin/probe sleep 900")
    assert "created" in made, made
    try:
        create_as(lab, "bob", json.dumps(autoscaler("idle")))
        reason = "jsonpath={.status.conditions[?(@.type=='ScalingActive')].reason}"
        wait_for(lambda: kubectl(lab, f'-n vision get hpa idle -o "{reason}"'), lambda seen: seen == "ValidMetricFound")
    finally:
        kubectl(lab, "-n vision delete hpa/idle deployment/idle --wait=true")


def test_addon_with_running_job_is_not_removed(lab: Project) -> None:
    create_as(lab, "alice", json.dumps(jobset("late", 900)))
    wait_for(lambda: admitted(lab, "research", "late"), lambda seen: seen == "True")
    lab.edit(lambda cluster: cluster["scheduler"].update(addons=[name for name in ADDONS if name != "jobset"]))
    said = lab.pulumi("up", timeout=3000)
    assert not said.ok and "JobSet research/late" in said.output, said.output
    kubectl(lab, "-n research delete jobset late pair --wait=true")


def test_undeclared_addon_is_removed_completely(lab: Project) -> None:
    lab.run_checked("up", timeout=3000)
    wait_for(lambda: kubectl(lab, "get namespace jobset-system"), lambda seen: "not found" in seen)
    wait_for(lambda: kubectl(lab, "get crd jobsets.jobset.x-k8s.io"), lambda seen: "not found" in seen)
    lab.edit(lambda cluster: cluster["scheduler"].update(addons=[]))
    lab.run_checked("up", timeout=3000)
    kinds = "crd,clusterrole,mutatingwebhookconfiguration,validatingadmissionpolicy,deviceclass,daemonset,apiservice"
    wait_for(lambda: kubectl(lab, f"get {kinds} -A -l rackwright.addon/name -o name"), lambda seen: seen == "")
    assert "error" in kubectl(lab, "top nodes").lower()
    assert lab.report()["verdict"] == "passed"


def test_destroy_leaves_nothing(lab: Project) -> None:
    lab.run_checked("destroy")
    assert lab.leftovers() == []
