"""The pod network as nodes report it, and each check on one wrong part. The sample: a worker of the lab with flannel."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from rackwright.checks.cluster import test_podnetwork as checks
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.probes.kubelet import FILES, Files
from rackwright.checks.cluster.probes.kubernetes import NODES, PODS, Node, Pod
from rackwright.checks.cluster.probes.podnetwork import PODNETWORK, parse_podnetwork
from rackwright.errors import UndeterminedError

FOLDER = Path(__file__).parents[1] / "captured" / "podnetwork"
GOOD = parse_podnetwork((FOLDER / "good.txt").read_text(encoding="utf-8"))
NODE = SimpleNamespace(name="worker0", address="10.81.0.24")
OTHERS = {"login0": ("10.81.0.16", "10.244.0.0/24"), "worker1": ("10.81.0.25", "10.244.1.0/24")}
RANGE = "10.244.2.0/24"


def known(name, range_):
    """Return a node as the API server reports it."""
    return Node(name, {}, (), False, (), "v1.34.1", "containerd", {}, {}, {}, range_)


def conflist(range_):
    """Return the runtime's network configuration with a range."""
    return json.dumps({"plugins": [{"type": "bridge", "ipam": {"ranges": [[{"subnet": range_}]]}}, {"type": "portmap"}]})


def ends(check, *, found=GOOD, files=None, pods=(), cni="flannel", encapsulation="vxlan", range_=RANGE):
    """Return the failure message of a check on worker0 of the lab, or an empty text."""
    nodes = {name: known(name, theirs) for name, (_, theirs) in OTHERS.items()} | {"worker0": known("worker0", range_)}
    listed = [SimpleNamespace(name=name, address=address) for name, (address, _) in OTHERS.items()] + [NODE]
    network = SimpleNamespace(encapsulation=encapsulation, node_mtu=1500, mtu=1450 if encapsulation == "vxlan" else 1500)
    scheduler = SimpleNamespace(controllers=["login0"], cni=cni, pods="10.244.0.0/16", network=network, nodes=listed)
    networks = {"10-rackwright.conflist": conflist(RANGE)} if files is None else files
    answers = {PODNETWORK: found, NODES: nodes, PODS: pods, FILES: Files({}, {}, networks, (), True)}
    given = {
        "node": NODE,
        "cluster": SimpleNamespace(scheduler=scheduler),
        "kubernetes_node": nodes["worker0"],
        "ask": lambda probe, of=None: answers[probe],
        "expect": Expect(),
    }
    try:
        check(**{name: given[name] for name in check.__code__.co_varnames[: check.__code__.co_argcount]})
    except Mismatch as error:
        return str(error)
    return ""


def agent(ready=True, **changes):
    """Return flannel's pod on worker0."""
    said = {"namespace": "kube-system", "name": "flannel-x", "labels": {"app.kubernetes.io/name": "flannel"}, "node": "worker0"}
    return Pod(**{**said, "phase": "Running", "ready": ready, "why": "", "rights": (), **changes})


def test_captured_node_passes():
    for check in (checks.test_node_cidr_configured, checks.test_tunnel_matches_plan, checks.test_reaches_other_nodes):
        assert ends(check) == ""
    assert ends(checks.test_mtu_matches_plan) == ""


@pytest.mark.parametrize(
    ("pods", "well"),
    [((agent(),), True), ((), False), ((agent(ready=False),), False), ((agent(node="worker1"),), False), ((agent(namespace="x"),), False)],
)
def test_agent_state_is_read(pods, well):
    assert (ends(checks.test_agent_runs, pods=pods) == "") is well


def test_agents_of_other_networks_are_recognised():
    calico = agent(namespace="calico-system", labels={"k8s-app": "calico-node"})
    assert ends(checks.test_agent_runs, pods=(calico,), cni="calico") == ""
    assert ends(checks.test_agent_runs, pods=(agent(labels={"k8s-app": "cilium"}),), cni="cilium") == ""


@pytest.mark.parametrize(
    "wrong",
    [
        {"files": {}},
        {"files": {"00-other.conflist": conflist("10.9.0.0/24"), "10-rackwright.conflist": conflist(RANGE)}},
        {"files": {"10-rackwright.conflist": conflist("10.244.9.0/24")}},
        {"range_": "10.244.7.0/24"},
        {"range_": ""},
        {"found": dataclasses.replace(GOOD, range="")},
        {"found": dataclasses.replace(GOOD, network="10.9.0.0/16")},
    ],
)
def test_foreign_pod_range_fails(wrong):
    assert ends(checks.test_node_cidr_configured, **wrong)


@pytest.mark.parametrize("changes", [{"number": 2}, {"port": 4789}, {"local": "192.0.2.7"}, {"up": False}])
def test_other_tunnel_fails(changes):
    found = dataclasses.replace(GOOD, tunnel=dataclasses.replace(GOOD.tunnel, **changes))
    assert ends(checks.test_tunnel_matches_plan, found=found)


def test_missing_tunnel_fails():
    assert "device missing" in ends(checks.test_tunnel_matches_plan, found=dataclasses.replace(GOOD, tunnel=None))


def test_missing_route_and_wrong_endpoint_fail():
    ways = {theirs: way for theirs, way in GOOD.routes.items() if theirs != OTHERS["worker1"][1]}
    assert "no route" in ends(checks.test_reaches_other_nodes, found=dataclasses.replace(GOOD, routes=ways))
    assert "no tunnel endpoint" in ends(checks.test_reaches_other_nodes, found=dataclasses.replace(GOOD, ends=frozenset()))


def test_direct_routes_lead_to_other_node():
    ways = {theirs: f"via {address} dev eth0" for address, theirs in OTHERS.values()}
    assert ends(checks.test_reaches_other_nodes, found=dataclasses.replace(GOOD, routes=ways), encapsulation="none") == ""
    assert ends(checks.test_reaches_other_nodes, encapsulation="none")


@pytest.mark.parametrize("changes", [{"mtu": 1500}, {"mtus": {**GOOD.mtus, "flannel.1": 1500}}, {"mtus": {**GOOD.mtus, "eth0": 1400}}])
def test_other_mtu_fails(changes):
    assert ends(checks.test_mtu_matches_plan, found=dataclasses.replace(GOOD, **changes))


def test_larger_network_mtu_passes():
    assert ends(checks.test_mtu_matches_plan, found=dataclasses.replace(GOOD, mtus={**GOOD.mtus, "eth0": 9000})) == ""


def test_node_without_known_address_is_unknown():
    with pytest.raises(UndeterminedError, match=r"no interface has 10\.81\.0\.24"):
        ends(checks.test_mtu_matches_plan, found=dataclasses.replace(GOOD, addresses={}))
