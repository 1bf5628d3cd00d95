"""What is planned of the pods' network, and the objects that bring it about."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rackwright.catalog.networks import encapsulations, overhead, required_ports
from rackwright.inventory import paths
from rackwright.model.scheduler.kubernetes import Cni, Encapsulation
from rackwright.plan import expand
from rackwright.plan.kubernetes.network import cilium_values
from rackwright.plan.kubernetes.schema import Kubernetes
from rackwright.stackfile.load import load_cluster
from rackwright.yaml_loader import load_yaml


def planned(**scheduler: Any) -> Kubernetes:
    """The scheduler of the lab with another network."""
    data = load_yaml(paths.stack_file("lab-k8s").read_text())["config"]["rackwright:cluster"]
    data["scheduler"] |= scheduler
    loaded = load_cluster(data, "lab-k8s")
    assert loaded.cluster is not None, loaded.findings
    found = expand(loaded.cluster, "lab-k8s").scheduler
    assert isinstance(found, Kubernetes)
    return found


def one(cluster: Kubernetes, kind: str, name: str) -> dict[str, Any]:
    """An object of the plan."""
    return next(made for made in cluster.objects if made["kind"] == kind and made["metadata"]["name"] == name)


@pytest.mark.parametrize(
    ("scheduler", "mtu"),
    [
        ({}, 1500),
        ({"cni": "flannel"}, 1450),
        ({"cni": "flannel", "node_mtu": 1400}, 1350),
        ({"cni": "flannel", "encapsulation": "none"}, 1500),
        ({"cni": "calico", "encapsulation": "ipip"}, 1480),
        ({"cni": "cilium", "encapsulation": "geneve"}, 1450),
    ],
)
def test_pods_have_what_encapsulation_leaves(scheduler: dict[str, Any], mtu: int) -> None:
    assert planned(**scheduler).network.mtu == mtu


@pytest.mark.parametrize("cni", list(Cni))
def test_every_network_says_what_nodes_take_and_what_it_costs(cni: Cni) -> None:
    assert encapsulations(cni)
    for encapsulation in encapsulations(cni):
        assert overhead(encapsulation) == 0 if encapsulation is Encapsulation.NONE else overhead(encapsulation) >= 20
        assert bool(required_ports(cni, encapsulation)) is (
            cni is not Cni.BRIDGE and (cni, encapsulation) != (Cni.FLANNEL, Encapsulation.NONE)
        )


@pytest.mark.parametrize(
    ("scheduler", "backend"),
    [
        ({"node_mtu": 1400}, {"Type": "vxlan", "VNI": 1, "Port": 8472, "MTU": 1400}),
        ({"encapsulation": "none"}, {"Type": "host-gw"}),
    ],
)
def test_flannel_is_told_the_plan_s_range_and_the_mtu_between_nodes(scheduler: dict[str, Any], backend: dict[str, Any]) -> None:
    cluster = planned(cni="flannel", **scheduler)
    config = one(cluster, "ConfigMap", "flannel")["data"]["net-conf.json"]
    assert json.loads(config) == {"Network": "10.244.0.0/16", "EnableNFTables": True, "Backend": backend}
    template = one(cluster, "DaemonSet", "flannel")["spec"]["template"]
    assert template["metadata"]["annotations"] == {"rackwright.node/settings": config}, "another setting must replace its pods"


def test_flannel_comes_before_what_needs_a_network() -> None:
    kinds = [f"{made['kind']} {made['metadata']['name']}" for made in planned(cni="flannel").objects]
    assert kinds.index("DaemonSet flannel") < kinds.index("DaemonSet gpu-device-plugin") < kinds.index("Namespace research")


@pytest.mark.parametrize(("cni", "policies"), [("bridge", 0), ("flannel", 0), ("calico", 4), ("cilium", 4)])
def test_namespaces_have_policies_where_they_hold(cni: str, policies: int) -> None:
    cluster = planned(cni=cni)
    found = [made["metadata"]["name"] for made in cluster.objects if made["kind"] == "NetworkPolicy"]
    assert len(found) == policies and cluster.network.enforces_network_policy is bool(policies)
    assert not found or found[0] == "default-deny"


def test_policies_leave_open_the_namespace_names_and_what_is_outside() -> None:
    cluster = planned(cni="cilium")
    deny = one(cluster, "NetworkPolicy", "default-deny")["spec"]
    assert deny == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    within = one(cluster, "NetworkPolicy", "within")["spec"]
    assert within["ingress"] == [{"from": [{"podSelector": {}}]}] and within["egress"] == [{"to": [{"podSelector": {}}]}]
    assert [port["port"] for port in one(cluster, "NetworkPolicy", "names")["spec"]["egress"][0]["ports"]] == [53, 53]
    outside = one(cluster, "NetworkPolicy", "outside")["spec"]["egress"][0]["to"][0]["ipBlock"]
    assert outside == {"cidr": "0.0.0.0/0", "except": [cluster.pods, "10.80.0.0/24"]}


def test_cilium_is_told_the_same() -> None:
    tunnel, native = (cilium_values(planned(cni="cilium", **more)) for more in ({}, {"encapsulation": "none"}))
    assert (tunnel["routingMode"], tunnel["tunnelProtocol"], tunnel["MTU"], tunnel["kubeProxyReplacement"]) == (
        "tunnel",
        "vxlan",
        1500,
        False,
    )
    assert (native["routingMode"], native["ipv4NativeRoutingCIDR"]) == ("native", "10.244.0.0/16")
