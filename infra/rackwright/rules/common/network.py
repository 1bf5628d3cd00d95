"""The network's range, and whether it holds all declared nodes."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Final

from rackwright.catalog.container_networks import Use, container_networks
from rackwright.derive.layout import FIRST_OFFSET, capacity_of, login_ports, space, tier_of
from rackwright.model.finding import Severity
from rackwright.rules.registry import RuleContext, Violation, rule

_UNUSABLE: Final = {
    IPv4Network("0.0.0.0/8"): "`this network` (RFC 1122)",
    IPv4Network("127.0.0.0/8"): "every machine's loopback",
    IPv4Network("169.254.0.0/16"): "link-local addresses, among them cloud metadata services",
    IPv4Network("224.0.0.0/4"): "multicast",
    IPv4Network("240.0.0.0/4"): "reserved addresses",
}
_EXAMPLES: Final = {
    "network.cidr": "10.77.0.0/24",
    "scheduler.pod_cidr": "10.244.0.0/16",
    "scheduler.service_cidr": "10.245.0.0/16",
}
_OWNERS: Final = {
    "podman": "Podman's default network",
    "docker": "Docker's default network",
    "libvirt": "libvirt's default network",
}
_TOOLS: Final = {"lxc": "LXC", "minikube": "minikube", "k3s": "K3s"}
_PRIVATE: Final = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
_SHARED: Final = IPv4Network("100.64.0.0/10")
"""Shared address space of providers (RFC 6598), in which Tailscale assigns addresses and drops what other interfaces receive."""
_WIDEST: Final = 16
"""Shortest prefix: a wider range hides addresses of the whole site from this machine, for a cluster that uses a few hundred."""


@rule("network-too-small")
def network_too_small(case: RuleContext) -> Iterator[Violation]:
    """Every group's block must lie inside the network, or inside its subnet for such groups."""
    cluster = case.cluster
    for tier, subnet in cluster.target.subnets(cluster.network.cidr).items():
        groups = {name: group for name, group in cluster.groups.items() if tier_of(cluster, name) is tier}
        wanted = sum(capacity_of(name, group) for name, group in groups.items())
        if cluster.target.owns_network and groups and wanted > space(subnet):
            prefix = 32 - (wanted + FIRST_OFFSET).bit_length() - (subnet.prefixlen - cluster.network.cidr.prefixlen)
            whose = "the groups" if subnet == cluster.network.cidr else f"the groups of the {tier} subnet"
            cause = f"{subnet} has {space(subnet)} addresses for nodes, but {whose} reserve {wanted}"
            yield Violation("network.cidr", cause, f"use a /{prefix} or wider, or reduce the groups' `reserved_addresses`")


@rule("network-too-wide", Severity.WARNING)
def network_too_wide(case: RuleContext) -> Iterator[Violation]:
    """The whole range is routed to the cluster."""
    cidr = case.cluster.network.cidr
    if case.cluster.target.publishes_ports and cidr.prefixlen < _WIDEST:
        yield Violation(
            "network.cidr",
            f"{cidr} reserves {cidr.num_addresses} addresses on this machine",
            "use a smaller range; a /24 has 239 addresses for nodes",
        )


def declared_ranges(case: RuleContext) -> dict[str, IPv4Network]:
    """Return the ranges from which nodes, pods and services have addresses, by path."""
    kubernetes = case.kubernetes
    own = {"scheduler.pod_cidr": kubernetes.pod_cidr, "scheduler.service_cidr": kubernetes.service_cidr} if kubernetes else {}
    return {"network.cidr": case.cluster.network.cidr, **own}


@rule("network-reserved-range")
def network_reserved_range(case: RuleContext) -> Iterator[Violation]:
    """Some ranges have a special meaning."""
    for path, network in declared_ranges(case).items():
        for taken, meaning in _UNUSABLE.items():
            if network.overlaps(taken):
                yield Violation(path, f"{network} overlaps {taken}: {meaning}", f"use a private range, like {_EXAMPLES[path]}")


@rule("network-overlap")
def network_overlap(case: RuleContext) -> Iterator[Violation]:
    """Container engines route their default networks on this machine, or on the nodes; two routes to one range lose packets."""
    cidr, target = case.cluster.network.cidr, case.cluster.target
    software = case.cluster.software
    on_nodes = {runtime.value for runtime in software.containers} if software else set()
    for row in container_networks():
        if not target.owns_network or row.use is not Use.DEFAULT or not cidr.overlaps(row.network):
            continue
        if row.runtime in _OWNERS and (target.publishes_ports or row.runtime in on_nodes):
            cause = f"{cidr} overlaps {row.network}: {_OWNERS[row.runtime]}"
            yield Violation("network.cidr", cause, "use another private range, like 10.77.0.0/24")


@rule("network-overlap-tool", Severity.WARNING)
def network_overlap_tool(case: RuleContext) -> Iterator[Violation]:
    """Not every machine has these tools; where one runs, its bridge has this range."""
    cidr = case.cluster.network.cidr
    for row in container_networks() if case.cluster.target.publishes_ports else ():
        if row.runtime in _TOOLS and cidr.overlaps(row.network):
            cause = f"{cidr} overlaps {row.network}, which {_TOOLS[row.runtime]} takes on this machine (interface {row.bridge})"
            yield Violation("network.cidr", cause, f"use another range, like 10.77.0.0/24, if `ip -br address show {row.bridge}` has it")


@rule("network-shared-range", Severity.WARNING)
def network_shared_range(case: RuleContext) -> Iterator[Violation]:
    """Existing machines may have their addresses from Tailscale; ranges that rackwright creates can be chosen."""
    for path, network in declared_ranges(case).items():
        if network.overlaps(_SHARED) and (path != "network.cidr" or case.cluster.target.owns_network):
            cause = f"{network} overlaps {_SHARED}: Tailscale and providers' NAT use it (RFC 6598)"
            yield Violation(path, cause, f"use 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16, like {_EXAMPLES[path]}")


@rule("network-public", Severity.WARNING)
def network_public(case: RuleContext) -> Iterator[Violation]:
    """A public range makes its internet hosts unreachable from this machine."""
    for path, network in declared_ranges(case).items():
        if not any(network.overlaps(range_) for range_ in (*_PRIVATE, *_UNUSABLE)):
            yield Violation(path, f"{network} is not a private range", "use 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16")


@rule("stacks-overlap", Severity.WARNING)
def stacks_overlap(case: RuleContext) -> Iterator[Violation]:
    """Two stacks with overlapping networks cannot be up on one machine at once."""
    for name, other in case.other_stacks.items():
        here = case.cluster.target.publishes_ports and other.target.publishes_ports
        if here and case.cluster.network.cidr.overlaps(other.network.cidr):
            cause = f"{case.cluster.network.cidr} overlaps {other.network.cidr} of stack {name}: they cannot be up at once"
            yield Violation("network.cidr", cause, "use another range")


@rule("stacks-port", Severity.WARNING)
def stacks_port(case: RuleContext) -> Iterator[Violation]:
    """Two stacks with one port cannot be up on one machine at once."""
    mine = set(login_ports(case.cluster).values())
    for name, other in case.other_stacks.items():
        shared = mine & set(login_ports(other).values())
        if shared and other.access.bind_address == case.cluster.access.bind_address:
            yield Violation(
                "access.port", f"port {min(shared)} is also published by stack {name}: they cannot be up at once", "use another port"
            )
