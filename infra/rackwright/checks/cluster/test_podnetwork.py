"""The pod network, if it is more than plain routes: its agent runs, its tunnel and its routes match the plan."""

from __future__ import annotations

import json

from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.probes.kubelet import FILES
from rackwright.checks.cluster.probes.kubernetes import NODES, PODS, Node, current
from rackwright.checks.cluster.probes.podnetwork import BRIDGE, PODNETWORK, TUNNEL
from rackwright.errors import UndeterminedError

AGENTS = {
    "flannel": ("kube-system", "app.kubernetes.io/name", "flannel"),
    "calico": ("calico-system", "k8s-app", "calico-node"),
    "cilium": ("kube-system", "k8s-app", "cilium"),
}
"""Namespace and label of the agent's pods (Calico's and Cilium's own manifests)."""
CONFLIST = "10-rackwright.conflist"
VNI, PORT = 1, 8472
"""VNI and UDP port of flannel's tunnel on Linux (backends.md, VXLAN)."""


def test_agent_runs(node: Record, cluster: Record, ask: Ask, expect: Expect) -> None:
    """Without the agent a node learns of no new neighbour, and a new node has no network at all."""
    namespace, key, value = AGENTS[cluster.scheduler.cni]
    pods = ask(PODS, of=cluster.scheduler.controllers[0])
    found = [pod for pod in pods if pod.node == node.name and pod.namespace == namespace and pod.labels.get(key) == value]
    expect([pod.described for pod in current(found)], ["ready"])


def test_node_cidr_configured(kubernetes_node: Node, cluster: Record, ask: Ask, expect: Expect) -> None:
    """Pods must get addresses from the range that the cluster assigned to this node: others are not routed here."""
    pod_network, networks = ask(PODNETWORK), ask(FILES).networks
    first = next(iter(sorted(networks)), "none")
    found = {
        "the cluster": kubernetes_node.range or "none",
        "flannel": pod_network.range or "none",
        "flannel, all nodes": pod_network.network or "none",
        "the runtime's file": first,
        "the runtime": _ranges(networks.get(first, "")),
    }
    given = kubernetes_node.range
    planned = {
        "the cluster": given,
        "flannel": given,
        "flannel, all nodes": cluster.scheduler.pods,
        "the runtime's file": CONFLIST,
        "the runtime": [given],
    }
    expect(found, planned, holds=bool(given) and found == planned)


def test_tunnel_matches_plan(node: Record, ask: Ask, expect: Expect) -> None:
    """A tunnel with another number, port or endpoint delivers no packets."""
    found = ask(PODNETWORK).tunnel
    if found is None:
        expect("device missing", f"{TUNNEL}")
    shown = {"number": found.number, "port": found.port, "from": found.local, "state": "up" if found.up else "down"}
    expect(shown, {"number": VNI, "port": PORT, "from": node.address, "state": "up"})


def test_reaches_other_nodes(node: Record, cluster: Record, ask: Ask, expect: Expect) -> None:
    """Each node needs one route to every other node's range, and a tunnel endpoint if there is a tunnel."""
    known, found = ask(NODES, of=cluster.scheduler.controllers[0]), ask(PODNETWORK)
    others = [one for one in cluster.scheduler.nodes if one.name != node.name and known.get(one.name) and known[one.name].range]
    if len(cluster.scheduler.nodes) > 1 and not others:
        raise UndeterminedError("the API reports no range of another node")
    wrapped, own = cluster.scheduler.network.encapsulation == "vxlan", found.addresses.get(node.address, "none")
    planned, routes = {}, {}
    for one in others:
        pod_range = known[one.name].range
        planned[one.name] = _planned_route(pod_range, one.address, None if wrapped else own)
        routes[one.name] = found.routes.get(pod_range, "no route") + (
            "" if not wrapped or one.address in found.ends else ", no tunnel endpoint"
        )
    expect(routes, planned)


def test_mtu_matches_plan(node: Record, cluster: Record, ask: Ask, expect: Expect) -> None:
    """A packet larger than the node network's MTU is dropped without an error."""
    planned, found = cluster.scheduler.network, ask(PODNETWORK)
    own = found.addresses.get(node.address)
    if own is None:
        raise UndeterminedError(f"no interface has {node.address}")
    wanted = {"between nodes": planned.node_mtu, "flannel": planned.mtu}
    shown = {"between nodes": found.mtus[own], "flannel": found.mtu}
    for interface in (TUNNEL, BRIDGE):  # the bridge is created with the first pod
        if interface in found.mtus:
            wanted[interface], shown[interface] = planned.mtu, found.mtus[interface]
    larger = shown["between nodes"] >= planned.node_mtu
    expect(shown, wanted, holds=larger and {**shown, "between nodes": 0} == {**wanted, "between nodes": 0})


def _ranges(text: str | None) -> list[str]:
    """Return the address ranges of the plugins."""
    plugins = json.loads(text)["plugins"] if text else []
    return [one["subnet"] for plugin in plugins for ranges in plugin.get("ipam", {}).get("ranges", []) for one in ranges]


def _planned_route(pod_range: str, address: str, interface: str | None) -> str:
    """Return the route to another node's pods: through the tunnel, to the first address of the range, or directly to the node."""
    return f"via {address} dev {interface}" if interface else f"via {pod_range.partition('/')[0]} dev {TUNNEL}"
