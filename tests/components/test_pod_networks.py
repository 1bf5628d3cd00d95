"""Networks of pods as the program registers them and as their own schemas accept them. Calico and Cilium never ran, nor anything on AWS."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes_schemas import breaches
from network_schemas import breaches as refused
from recording import built, committed

from rackwright.inventory import paths
from rackwright.plan import Plan, expand
from rackwright.plan.kubernetes.network import calico_installation, cilium_values
from rackwright.plan.kubernetes.schema import Kubernetes
from rackwright.stackfile.load import CONFIG_KEY, load_cluster
from rackwright.targets.kubernetes.objects import resource_name
from rackwright.yaml_loader import load_yaml

_RULES = "aws:vpc/securityGroup{}Rule:SecurityGroup{}Rule"


def like(stack: str, **scheduler: Any) -> Plan:
    """Return a committed stack with another scheduler instead of Slurm."""
    data: dict[str, Any] = load_yaml(paths.stack_file(stack).read_text())["config"][CONFIG_KEY]
    data["scheduler"] = {"kind": "kubernetes", **scheduler}
    for group in data["groups"].values():
        if "roles" in group:
            group["roles"] = [role for role in group["roles"] if role != "accounting"]
    loaded = load_cluster(data, stack)
    assert loaded.cluster is not None, loaded.findings
    return expand(loaded.cluster, stack)


def cluster(plan: Plan) -> Kubernetes:
    """Return its scheduler."""
    assert isinstance(plan.scheduler, Kubernetes)
    return plan.scheduler


FLANNEL = {resource_name(wanted): dict(wanted) for wanted in cluster(committed("lab-k8s-flannel")).objects}


@pytest.mark.parametrize("name", FLANNEL)
def test_flannel_objects_match_kubernetes_schemas(name: str) -> None:
    assert breaches(FLANNEL[name]) == []


def test_pulumi_applies_flannel_with_other_objects() -> None:
    made = built(like("lab-k8s", cni="flannel", apply_with="pulumi")).made
    assert {name: typ for name, (typ, _) in made.items() if "flannel" in name} == {
        "serviceaccount/kube-system/flannel": "kubernetes:core/v1:ServiceAccount",
        "clusterrole/flannel": "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole",
        "clusterrolebinding/flannel": "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding",
        "configmap/kube-system/flannel": "kubernetes:core/v1:ConfigMap",
        "daemonset/kube-system/flannel": "kubernetes:apps/v1:DaemonSet",
    }
    assert made["kubernetes-bundle"][1]["extras"] == ["flannel"]


def test_only_flannel_needs_bundle_part() -> None:
    assert "extras" not in built(committed("lab-k8s")).made["kubernetes-bundle"][1]


@pytest.mark.parametrize("encapsulation", ["vxlan", "ipip", "none"])
def test_calico_installation_matches_operator_schema(encapsulation: str) -> None:
    written = calico_installation(cluster(like("lab-k8s", cni="calico", encapsulation=encapsulation)))
    assert refused("calico", written) == []
    assert refused("calico", {**written, "spec": {**written["spec"], "calicoNetwrk": {}}})


def test_calico_installation_is_custom_resource() -> None:
    made = built(like("lab-k8s", cni="calico", apply_with="pulumi")).made
    assert made["installation/default"][0] == "kubernetes:operator.tigera.io/v1:Installation"


@pytest.mark.parametrize("encapsulation", ["vxlan", "geneve", "none"])
def test_cilium_values_match_chart_schema(encapsulation: str) -> None:
    written = cilium_values(cluster(like("lab-k8s", cni="cilium", encapsulation=encapsulation)))
    assert refused("cilium", written) == []
    assert refused("cilium", {**written, "routingMode": 1}) and refused("cilium", {**written, "tunnel": "vxlan"})


@pytest.mark.parametrize("cni", ["flannel", "calico", "cilium"])
def test_aws_security_group_admits_encapsulated_traffic(cni: str) -> None:
    """All protocols, IP in IP among them, within the security group of every node; from outside nothing but SSH to login."""
    plan = like("aws-budget", cni=cni)
    recorded = built(plan)
    admitted = recorded.of(_RULES.format("Ingress", "Ingress"))
    assert admitted["cluster-itself"]["ipProtocol"] == "-1"
    assert admitted["cluster-itself"]["referencedSecurityGroupId"] == admitted["cluster-itself"]["securityGroupId"] == "id-cluster-rules"
    assert recorded.of(_RULES.format("Egress", "Egress"))["cluster-itself-out"]["ipProtocol"] == "-1"
    strangers = {name: rule for name, rule in admitted.items() if rule.get("cidrIpv4")}
    assert all((rule["fromPort"], rule["toPort"]) == (22, 22) for rule in strangers.values())
    assert cluster(plan).network.mtu == 9001 - 50


def test_aws_defaults_to_flannel() -> None:
    plan = like("aws-budget")
    assert (cluster(plan).cni.value, cluster(plan).network.encapsulation.value) == ("flannel", "vxlan")
    assert not cluster(plan).bundled
    image = next(one for one in cluster(plan).objects if one["metadata"]["name"] == "flannel" and one["kind"] == "DaemonSet")
    assert image["spec"]["template"]["spec"]["containers"][0]["image"] == "ghcr.io/flannel-io/flannel:v0.26.7"
