"""Manifests of workloads: rendered for committed stacks, valid for the releases that they name, with a statement of what ran."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest
from click.testing import CliRunner
from kubernetes_schemas import ADDONS, breaches

from rackwright.catalog.addons import NEVER, addons
from rackwright.cli.main import _program
from rackwright.cli.render.workloads import text
from rackwright.cli.workloads import SCHEMA
from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.model.scheduler.kubernetes import Addon, Kubernetes, Namespace
from rackwright.plan import Plan, expand
from rackwright.stackfile.load import load_cluster, load_stack
from rackwright.workloads import WORKLOADS, render
from rackwright.yaml_loader import load_yaml, load_yaml_documents

OBJECTS = [name for name, one in WORKLOADS.items() if not one.values and name != "rdma-plugin"]


def changed(**changes: Any) -> Plan:
    """Return the Kubernetes lab with parts replaced."""
    loaded = load_cluster(load_yaml(paths.stack_file("lab-k8s").read_text())["config"]["rackwright:cluster"] | changes)
    assert loaded.cluster is not None, loaded.findings
    return expand(loaded.cluster, "lab-k8s")


@cache
def lab() -> Plan:
    """Return the committed lab with Kubernetes."""
    return changed()


@cache
def rack() -> Plan:
    """Return racks with InfiniBand, whose nodes have Kubernetes."""
    cluster = load_stack(paths.stack_file("rack-h100")).cluster
    assert cluster is not None
    scheduler = Kubernetes(kind="kubernetes", namespaces={"research": Namespace()})
    return expand(cluster.model_copy(update={"scheduler": scheduler}), "rack-h100")


def one(plan: Plan, name: str, kind: str) -> dict[str, Any]:
    """Return the first object of a kind."""
    return next(wanted for wanted in render(plan, name) if wanted["kind"] == kind)


@pytest.mark.parametrize("name", OBJECTS)
def test_rendered_objects_match_schemas(name: str) -> None:
    made = render(lab(), name)
    assert made
    assert [breach for wanted in made for breach in breaches(wanted)] == []


def test_rack_manifests_match_schemas() -> None:
    for name in (*(name for name in OBJECTS if name != "metallb"), "rdma-plugin"):
        assert [breach for wanted in render(rack(), name) for breach in breaches(wanted)] == [], name


def test_schemas_have_catalogue_versions() -> None:
    """Otherwise, a manifest would be checked against one release and run on another."""
    checked = {re.sub(r"/v\d+$", "", module.split("@")[0]).rpartition("/")[2]: module.split("@v")[1].split("/")[0] for module in ADDONS}
    assert checked == {name: addons()[name].version for name in checked}


def test_job_uses_all_allowed_gpus() -> None:
    roomy = changed(scheduler={"kind": "kubernetes", "namespaces": {"research": {}}})
    spec = one(roomy, "jobset", "JobSet")["spec"]
    job = spec["replicatedJobs"][0]["template"]["spec"]
    container = job["template"]["spec"]["containers"][0]
    assert (job["parallelism"], job["completions"]) == (2, 2)
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "8"}}
    assert "--nnodes=2" in container["command"] and "--nproc-per-node=8" in container["command"]
    assert "--rdzv-endpoint=train-workers-0-0.train:29500" in container["command"]


def test_job_stays_within_namespace_quota() -> None:
    """12 GPUs are one node of eight: the quota would refuse a second pod."""
    assert one(lab(), "jobset", "JobSet")["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] == 1
    assert one(lab(), "trainjob", "TrainJob")["spec"]["trainer"]["numNodes"] == 1


def test_pods_request_adapters_only_on_real_hardware() -> None:
    spec = one(rack(), "jobset", "JobSet")["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    container = spec["containers"][0]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "8", "rdma/hca_shared_devices_a": "1"}
    assert container["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}


def test_job_pods_are_placed_by_topology_labels() -> None:
    for plan in (lab(), rack()):
        pod = one(plan, "jobset", "JobSet")["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        terms = pod["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        keys = {term["podAffinityTerm"]["topologyKey"] for term in terms}
        levels = {level["nodeLabel"] for level in one(plan, "queues", "Topology")["spec"]["levels"]}
        assert "network.topology.nvidia.com/leaf" in keys and levels == keys | {"kubernetes.io/hostname"}
        workers = [node for node in plan.scheduler.nodes if node.runs_workloads and node.gpus]  # type: ignore[union-attr]
        assert all(keys <= set(node.labels) for node in workers)


def test_queues_assign_every_gpu_once() -> None:
    queues = [wanted for wanted in render(lab(), "queues") if wanted["kind"] == "ClusterQueue"]
    owned = {
        queue["metadata"]["name"]: int(queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"]) for queue in queues
    }
    assert owned == {"research": 12, "spare": 4}
    limits = {
        queue["metadata"]["name"]: queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0].get("borrowingLimit")
        for queue in queues
    }
    assert limits == {"research": "0", "spare": None}, "a quota is an end: half a job beyond it would wait for the other half"
    assert one(lab(), "queues", "LocalQueue")["metadata"] == {"name": "research", "namespace": "research"}


def test_service_has_one_replica_per_node() -> None:
    assert one(rack(), "vllm", "HorizontalPodAutoscaler")["spec"]["maxReplicas"] == 64
    deployment = one(lab(), "vllm", "Deployment")["spec"]
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert deployment["template"]["spec"]["priorityClassName"] in {wanted["metadata"]["name"] for wanted in render(lab(), "priorities")}


def test_queue_autoscaler_replaces_one_by_cpu() -> None:
    by_cpu, by_queue = one(rack(), "vllm", "HorizontalPodAutoscaler"), one(rack(), "vllm-autoscaler", "HorizontalPodAutoscaler")
    assert by_queue["metadata"] == by_cpu["metadata"] and by_queue["spec"]["scaleTargetRef"] == by_cpu["spec"]["scaleTargetRef"]
    (metric,) = by_queue["spec"]["metrics"]
    assert metric["pods"] == {"metric": {"name": "vllm:num_requests_waiting"}, "target": {"type": "AverageValue", "averageValue": "4"}}


def with_keda(**network: str) -> Plan:
    """Return the lab with KEDA."""
    scheduler = {"kind": "kubernetes", "addons": ["keda"], "namespaces": {"research": {}}, **network}
    return changed(scheduler=scheduler)


def test_queue_autoscaler_is_kedas_where_the_stack_has_it() -> None:
    made = render(with_keda(), "vllm-autoscaler")
    assert [wanted["kind"] for wanted in made] == ["ScaledObject"] and [breach for wanted in made for breach in breaches(wanted)] == []
    by_cpu = one(with_keda(), "vllm", "HorizontalPodAutoscaler")
    spec = made[0]["spec"]
    assert spec["scaleTargetRef"] == by_cpu["spec"]["scaleTargetRef"] and spec["maxReplicaCount"] == by_cpu["spec"]["maxReplicas"]
    scaling = spec["advanced"]["horizontalPodAutoscalerConfig"]
    assert scaling["name"] == by_cpu["metadata"]["name"], "two autoscalers would work against each other"
    assert scaling["behavior"] == by_cpu["spec"]["behavior"]
    (trigger,) = spec["triggers"]
    port = one(with_keda(), "vllm", "Deployment")["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"]
    service = one(with_keda(), "vllm", "Service")["metadata"]
    assert trigger["metadata"]["url"] == f"http://{service['name']}.{service['namespace']}.svc:{port}/metrics"
    assert (trigger["metadata"]["aggregationType"], trigger["metadata"]["targetValue"]) == ("sum", "4")


def test_policy_admits_keda_to_the_metrics_where_the_network_enforces_policies() -> None:
    plan = with_keda(cni="calico", install_from="bundle")
    policy, scaler = render(plan, "vllm-autoscaler")
    assert (policy["kind"], scaler["kind"]) == ("NetworkPolicy", "ScaledObject") and breaches(policy) == []
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= one(plan, "vllm", "Service")["spec"]["selector"].items()
    (rule,) = policy["spec"]["ingress"]
    assert rule["ports"] == [{"port": 8000, "protocol": "TCP"}]
    assert rule["from"][0]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "keda"}


def test_service_addresses_do_not_overlap() -> None:
    assert one(lab(), "metallb", "IPAddressPool")["spec"]["addresses"] == ["10.80.0.12-10.80.0.15"]
    assert min(node.address for node in lab().nodes) == "10.80.0.16"


def test_operators_do_not_manage_host_drivers() -> None:
    (gpu,) = render(rack(), "gpu-operator")
    (network,) = render(rack(), "network-operator")
    assert gpu["driver"]["enabled"] is gpu["toolkit"]["enabled"] is network["ofedDriver"]["deploy"] is False
    config = json.loads(one(rack(), "rdma-plugin", "ConfigMap")["data"]["config.json"])
    assert config["configList"][0]["selectors"] == {"vendors": ["15b3"], "linkTypes": ["infiniband"]}


@pytest.mark.parametrize(
    ("name", "namespace", "says"),
    [
        ("jobsets", None, "there is no workload `jobsets`"),
        ("jobset", "resaerch", "no namespace `resaerch`"),
        ("efa-plugin", None, "target lab has no EFA"),
    ],
)
def test_invalid_request_is_reported(name: str, namespace: str | None, says: str) -> None:
    with pytest.raises(InputError, match=says):
        render(lab(), name, namespace)


def test_cluster_without_gpus_or_kubernetes_has_no_workloads() -> None:
    groups = {"login": {"count": 1, "roles": ["login", "controller"]}, "worker": {"count": 1}}
    with pytest.raises(InputError, match="has no GPUs"):
        render(changed(groups=groups, storage={}, fabric=None, scheduler={"kind": "kubernetes"}), "jobset")
    cluster = load_stack(paths.stack_file("lab")).cluster
    assert cluster is not None
    with pytest.raises(InputError, match="runs slurm"):
        render(expand(cluster, "lab"), "jobset")


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "efa-plugin"])
def test_manifest_header_states_requirements_and_evidence(name: str) -> None:
    workload = WORKLOADS[name]
    plan = changed(scheduler={"kind": "kubernetes", "cni": "cilium"}) if name == "cilium" else lab()
    written = text("lab-k8s", name, workload, render(plan, name))
    head = [line for line in written.splitlines() if line.startswith("#")]
    for need in workload.needs:
        (line,) = [line for line in head if line.startswith(f"# Needs {need} ")]
        assert line.endswith("Never run by this project." if addons()[need].run == NEVER else f"Run on {addons()[need].run}.")
    assert list(load_yaml_documents(written)) == list(render(plan, name))
    assert "&id" not in written


def test_cilium_values_require_cilium() -> None:
    with pytest.raises(InputError, match="the pod network of stack lab-k8s is bridge"):
        render(lab(), "cilium")


def test_every_addon_is_required_by_a_workload_or_can_be_declared() -> None:
    needed = {need for workload in WORKLOADS.values() for need in workload.needs}
    assert needed <= set(addons())
    assert set(addons()) - needed <= {addon.value for addon in Addon}


def test_workloads_command_lists_and_prints() -> None:
    program = _program()
    listed = CliRunner().invoke(program, ["workloads", "lab-k8s"])
    assert listed.exit_code == 0 and all(name in listed.output for name in WORKLOADS)
    printed = CliRunner().invoke(program, ["workloads", "lab-k8s", "jobset", "--json"])
    assert json.loads(printed.output)["schema"] == SCHEMA
