"""Addresses of Kubernetes: pods, services, and the control plane's endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address
from itertools import combinations
from typing import Final

from rackwright.derive.layout import FIRST_OFFSET, blocks, capacity_of
from rackwright.model.network import meaning_in
from rackwright.model.scheduler.kubernetes import Cni
from rackwright.model.targets.hosts import HostsTarget
from rackwright.rules.registry import RuleContext, Violation, rule

_NODE: Final = 24
"""Prefix length of one node's pod range."""
_SERVICES: Final = (12, 24)
"""Prefix lengths of the service range: kube-apiserver accepts at most a /12, and the addresses of less than a /24 are soon used up."""


@rule("kubernetes-endpoint-outside")
def kubernetes_endpoint_outside(case: RuleContext) -> Iterator[Violation]:
    """An address moves between controllers by ARP, which routers do not forward."""
    endpoint = case.kubernetes.control_plane_vip if case.kubernetes else None
    if endpoint is not None and endpoint not in case.cluster.network.cidr:
        cause = f"{endpoint} is not in {case.cluster.network.cidr}"
        yield Violation("scheduler.control_plane_vip", cause, "use a free address of network.cidr, below the groups' addresses")


@rule("kubernetes-endpoint-taken")
def kubernetes_endpoint_taken(case: RuleContext) -> Iterator[Violation]:
    """A node would use the control plane's address, now or when its group grows."""
    endpoint = case.kubernetes.control_plane_vip if case.kubernetes else None
    owner = _owner(case, endpoint) if endpoint is not None else None
    if owner is not None:
        free = case.cluster.network.cidr.network_address + FIRST_OFFSET - 6
        yield Violation("scheduler.control_plane_vip", f"{endpoint} is {owner}", f"use a free address, like {free}")


@rule("kubernetes-endpoint-routed")
def kubernetes_endpoint_routed(case: RuleContext) -> Iterator[Violation]:
    """A cloud's network delivers packets to the instance to which the address is assigned, whichever instance claims it."""
    if case.kubernetes is not None and case.kubernetes.control_plane_vip is not None and case.cluster.target.kind == "aws":
        cause = "a virtual address moves by ARP, which a VPC does not carry"
        yield Violation("scheduler.control_plane_vip", cause, "remove it and use one controller")


@rule("kubernetes-ranges-overlap")
def kubernetes_ranges_overlap(case: RuleContext) -> Iterator[Violation]:
    """A packet to an address in both ranges may arrive in either."""
    declared = case.kubernetes
    if declared is None:
        return
    ranges = {
        "network.cidr": case.cluster.network.cidr,
        "scheduler.pod_cidr": declared.pod_cidr,
        "scheduler.service_cidr": declared.service_cidr,
    }
    for (one, first), (other, second) in combinations(ranges.items(), 2):
        if first.overlaps(second):
            yield Violation(
                other, f"{second} overlaps {first} of {one}", "use a separate private range, like 10.244.0.0/16 or 10.245.0.0/16"
            )


@rule("kubernetes-pods-small")
def kubernetes_pods_small(case: RuleContext) -> Iterator[Violation]:
    """Plain routes derive pod ranges from the nodes' own addresses, so that none moves; other networks assign them one by one."""
    declared = case.kubernetes
    if declared is None:
        return
    cidr, nodes = case.cluster.network.cidr, len(case.members)
    wanted = cidr.prefixlen - (32 - _NODE) if _routes(case) else _NODE - max(nodes - 1, 1).bit_length()
    if declared.pod_cidr.prefixlen > wanted:
        whose = f"each address of {cidr}" if _routes(case) else f"each of {nodes} nodes"
        other = f", or `cni: flannel`, which needs a /{_NODE} for each node" if _routes(case) else ""
        cause = f"{declared.pod_cidr} does not contain a /{_NODE} for {whose}"
        yield Violation("scheduler.pod_cidr", cause, f"use a /{wanted} or wider{other}")


@rule("kubernetes-services-size")
def kubernetes_services_size(case: RuleContext) -> Iterator[Violation]:
    """Every service uses one address permanently."""
    declared, (widest, narrowest) = case.kubernetes, _SERVICES
    if declared is not None and not widest <= declared.service_cidr.prefixlen <= narrowest:
        cause = f"{declared.service_cidr} is not between a /{widest} and a /{narrowest}"
        yield Violation("scheduler.service_cidr", cause, "use a /16, for example")


@rule("kubernetes-routes-segment")
def kubernetes_routes_segment(case: RuleContext) -> Iterator[Violation]:
    """A cloud's network drops packets from addresses that it did not assign."""
    if case.kubernetes is not None and case.kubernetes.cni is Cni.BRIDGE and case.cluster.target.kind == "aws":
        cause = "plain routes carry pod traffic within one network segment only, and a VPC drops it"
        yield Violation("scheduler.cni", cause, "omit it, or use flannel, calico or cilium")


def _routes(case: RuleContext) -> bool:
    """Return whether the network of pods uses plain routes: by default, everywhere but on AWS."""
    assert case.kubernetes is not None
    return case.kubernetes.cni is Cni.BRIDGE or (case.kubernetes.cni is None and case.cluster.target.kind != "aws")


def _owner(case: RuleContext, endpoint: IPv4Address) -> str | None:
    """Return the owner of an address: the network itself, a machine that has it, or the group whose block contains it."""
    cluster = case.cluster
    meaning = meaning_in(cluster.network.cidr, endpoint)
    if meaning:
        return f"the {meaning} of {cluster.network.cidr}"
    if isinstance(cluster.target, HostsTarget):
        return next(
            (f"the address of {name}" for name, machine in cluster.target.machine_by_node.items() if machine.address == endpoint), None
        )
    offset = int(endpoint) - int(cluster.network.cidr.network_address)
    return next(
        (f"reserved for group {name}" for name, first in blocks(cluster).items() if first <= offset < first + _size(case, name)), None
    )


def _size(case: RuleContext, group: str) -> int:
    return capacity_of(group, case.cluster.groups[group])
