"""The network of pods, where more than plain routes carries it: its agent runs, its tunnel and its ways are the planned ones."""

from __future__ import annotations

import json

from cluster.probes.kubelet import FILES
from cluster.probes.kubernetes import NODES, PODS
from cluster.probes.podnetwork import BRIDGE, PODNETWORK, TUNNEL
from rackwright.errors import CouldNotTell

AGENTS = {
    "flannel": ("kube-system", "app.kubernetes.io/name", "flannel"),
    "calico": ("calico-system", "k8s-app", "calico-node"),
    "cilium": ("kube-system", "k8s-app", "cilium"),
}
"""Namespace and label of what runs on each node (Calico's and Cilium's own manifests)."""
CONFLIST = "10-rackwright.conflist"
VNI, PORT = 1, 8472
"""flannel's, on Linux (backends.md, VXLAN)."""


def test_agent_runs(node, cluster, ask, expect):
    """Without it a node learns of no new neighbour, and a new node has no network at all."""
    namespace, key, value = AGENTS[cluster.scheduler.cni]
    pods = ask(PODS, of=cluster.scheduler.controllers[0])
    found = [pod for pod in pods if pod.node == node.name and pod.namespace == namespace and pod.labels.get(key) == value]
    expect([pod.described for pod in found], ["ready"])


def test_runtime_has_its_range(kubernetes_node, cluster, ask, expect):
    """Pods get addresses out of the range that the cluster gave this node: others lead nowhere, or to another node."""
    told, networks = ask(PODNETWORK), ask(FILES).networks
    first = next(iter(sorted(networks)), "none")
    found = {
        "the cluster": kubernetes_node.range or "none",
        "flannel": told.range or "none",
        "of all": told.network or "none",
        "the runtime's file": first,
        "the runtime": _ranges(networks.get(first, "")),
    }
    given = kubernetes_node.range
    planned = {
        "the cluster": given,
        "flannel": given,
        "of all": cluster.scheduler.pods,
        "the runtime's file": CONFLIST,
        "the runtime": [given],
    }
    expect(found, planned, holds=bool(given) and found == planned)


def test_tunnel_is_the_planned_one(node, ask, expect):
    """A tunnel with another number, port or end carries packets to nobody."""
    found = ask(PODNETWORK).tunnel
    if found is None:
        expect("there is no such device", f"{TUNNEL}")
    shown = {"number": found.number, "port": found.port, "from": found.local, "state": "up" if found.up else "down"}
    expect(shown, {"number": VNI, "port": PORT, "from": node.address, "state": "up"})


def test_leads_to_other_nodes(node, cluster, ask, expect):
    """To the range of every other node one way, and an end of the tunnel where there is one."""
    known, found = ask(NODES, of=cluster.scheduler.controllers[0]), ask(PODNETWORK)
    others = [one for one in cluster.scheduler.nodes if one.name != node.name and known.get(one.name) and known[one.name].range]
    if len(cluster.scheduler.nodes) > 1 and not others:
        raise CouldNotTell("the cluster has told no other node's range")
    wrapped, own = cluster.scheduler.network.encapsulation == "vxlan", found.addresses.get(node.address, "none")
    planned, seen = {}, {}
    for one in others:
        theirs = known[one.name].range
        planned[one.name] = _way(theirs, one.address, None if wrapped else own)
        seen[one.name] = found.ways.get(theirs, "no way") + ("" if not wrapped or one.address in found.ends else ", no end of the tunnel")
    expect(seen, planned)


def test_mtu_matches_plan(node, cluster, ask, expect):
    """A packet that pods may send and the network between nodes does not carry is lost without a word."""
    planned, found = cluster.scheduler.network, ask(PODNETWORK)
    own = found.addresses.get(node.address)
    if own is None:
        raise CouldNotTell(f"no interface has {node.address}")
    wanted = {"between nodes": planned.node_mtu, "flannel": planned.mtu}
    shown = {"between nodes": found.mtus[own], "flannel": found.mtu}
    for interface in (TUNNEL, BRIDGE):  # The bridge comes with the first pod.
        if interface in found.mtus:
            wanted[interface], shown[interface] = planned.mtu, found.mtus[interface]
    larger = shown["between nodes"] >= planned.node_mtu
    expect(shown, wanted, holds=larger and {**shown, "between nodes": 0} == {**wanted, "between nodes": 0})


def _ranges(text):
    """Ranges that the first plugin gives out addresses of."""
    plugins = json.loads(text)["plugins"] if text else []
    return [one["subnet"] for plugin in plugins for ranges in plugin.get("ipam", {}).get("ranges", []) for one in ranges]


def _way(theirs, address, interface):
    """How a node reaches another's pods: by its tunnel, whose address there is the range's first, or straight to the node."""
    return f"via {address} dev {interface}" if interface else f"via {theirs.partition('/')[0]} dev {TUNNEL}"
