"""Addresses that MetalLB assigns to Services of type LoadBalancer.

Ranges of pods and services lie outside the cluster's network (`kubernetes-ranges-overlap`), so a range inside it overlaps neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from rackwright.derive.layout import blocks, capacity_of
from rackwright.derive.load_balancers import default_pool
from rackwright.model.address_range import AddressRange
from rackwright.model.cluster import Cluster
from rackwright.model.groups import Role
from rackwright.model.scheduler.kubernetes import Addon
from rackwright.model.targets.hosts import HostsTarget
from rackwright.rules.registry import RuleContext, Violation, rule

_PATH = "scheduler.load_balancer_addresses"


@rule("load-balancer-addon")
def load_balancer_addon(case: RuleContext) -> Iterator[Violation]:
    """Only MetalLB assigns these addresses."""
    if case.kubernetes is not None and case.kubernetes.load_balancer_addresses and Addon.METALLB not in case.kubernetes.addons:
        yield Violation(_PATH, "metallb assigns these addresses, but it is not listed", "add metallb to scheduler.addons")


@rule("load-balancer-routed")
def load_balancer_routed(case: RuleContext) -> Iterator[Violation]:
    """A cloud's network delivers packets to the instance to which the address is assigned, whichever node answers for it."""
    if _is_enabled(case) and case.cluster.target.kind == "aws":
        cause = "metallb announces addresses by ARP, which a VPC does not carry"
        yield Violation("scheduler.addons", cause, "remove metallb and use a Service of type NodePort, or the cloud's load balancer")


@rule("load-balancer-unknown")
def load_balancer_unknown(case: RuleContext) -> Iterator[Violation]:
    """In an existing network, any address may belong to another device."""
    if _is_enabled(case) and not case.cluster.target.owns_network and not _declared(case):
        cause = "the free addresses of an existing network are unknown"
        yield Violation(_PATH, cause, f"declare free addresses of {case.cluster.network.cidr} that no DHCP server assigns")


@rule("load-balancer-announcers")
def load_balancer_announcers(case: RuleContext) -> Iterator[Violation]:
    """kubeadm labels control plane nodes `exclude-from-external-load-balancers`; the speakers on them announce no address."""
    if _is_enabled(case) and not any(Role.CONTROLLER not in one.roles for one in case.with_role(Role.WORKER)):
        cause = "metallb announces addresses from workers outside the control plane, and there is none"
        yield Violation("scheduler.addons", cause, "add a group of workers without the role controller, or remove metallb")


@rule("load-balancer-outside")
def load_balancer_outside(case: RuleContext) -> Iterator[Violation]:
    """ARP reaches the nodes' own network only."""
    network = case.cluster.network.cidr
    for one in _declared(case):
        if one.first not in network or one.last not in network:
            yield Violation(_PATH, f"{one} is not in {network}", f"use free addresses of {network}, like {default_pool(network)}")


@rule("load-balancer-taken")
def load_balancer_taken(case: RuleContext) -> Iterator[Violation]:
    """Two machines would answer for one address."""
    if not _is_enabled(case):
        return
    network, is_ours = case.cluster.network.cidr, case.cluster.target.owns_network
    like = f", like {network.network_address + 4}-{network.network_address + 7}" if is_ours else f" of {network}"
    for one in _declared(case) or ((default_pool(network),) if is_ours else ()):
        for owner, other in _owners(case):
            if one.overlaps(other):
                yield Violation(_PATH, f"{one} contains {owner}", f"use free addresses{like}")


@rule("load-balancer-overlap")
def load_balancer_overlap(case: RuleContext) -> Iterator[Violation]:
    """MetalLB refuses a pool with an address that is listed twice."""
    for one, other in combinations(_declared(case), 2):
        if one.overlaps(other):
            yield Violation(_PATH, f"{one} and {other} overlap", "list each address once")


def _is_enabled(case: RuleContext) -> bool:
    return case.kubernetes is not None and Addon.METALLB in case.kubernetes.addons


def _declared(case: RuleContext) -> tuple[AddressRange, ...]:
    return case.kubernetes.load_balancer_addresses if case.kubernetes is not None else ()


def _owners(case: RuleContext) -> Iterator[tuple[str, AddressRange]]:
    """Yield what has an address of the network: the network itself, the gateway, the control plane, machines, groups."""
    cluster, network = case.cluster, case.cluster.network.cidr
    yield f"the network address of {network}", AddressRange(network.network_address, network.network_address)
    yield f"the broadcast address of {network}", AddressRange(network.broadcast_address, network.broadcast_address)
    if not isinstance(cluster.target, HostsTarget):
        gateway = network.network_address + 1
        yield f"{gateway}, the gateway", AddressRange(gateway, gateway)
    endpoint = case.kubernetes.control_plane_vip if case.kubernetes else None
    if endpoint is not None:
        yield f"{endpoint}, the control plane's address", AddressRange(endpoint, endpoint)
    yield from _nodes(cluster)


def _nodes(cluster: Cluster) -> Iterator[tuple[str, AddressRange]]:
    if isinstance(cluster.target, HostsTarget):
        for name, machine in cluster.target.machine_by_node.items():
            if machine.address is not None:
                yield f"the address of {name}", AddressRange(machine.address, machine.address)
        return
    base = cluster.network.cidr.network_address
    for name, first in blocks(cluster).items():
        last = first + capacity_of(name, cluster.groups[name]) - 1
        yield f"addresses reserved for group {name}", AddressRange(base + first, base + last)
