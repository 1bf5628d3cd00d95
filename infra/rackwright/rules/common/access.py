"""Access: published ports, and the networks that may use them."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network
from itertools import combinations
from typing import Final

from rackwright import catalog
from rackwright.derive.layout import login_ports
from rackwright.model.finding import Severity
from rackwright.model.targets.hosts import HostsTarget
from rackwright.rules.registry import RuleContext, Violation, rule

_PRIVILEGED: Final = 1024
_LAST_PORT: Final = 65535
"""First port that ordinary users may bind (ip-sysctl: ip_unprivileged_port_start), and the last port of TCP (RFC 9293: 16 bits)."""
_ANYBODY: Final = IPv4Network("0.0.0.0/0")
_OTHER_HINT: Final = "use a port like 2222"


def _published(case: RuleContext) -> list[int]:
    """Return the ports of this machine on which login nodes are published; none if they have addresses of their own."""
    if not case.cluster.target.publishes_ports:
        return []
    return sorted(login_ports(case.cluster).values()) or [case.cluster.access.port]


@rule("port-privileged")
def port_privileged(case: RuleContext) -> Iterator[Violation]:
    """Ordinary users cannot publish low ports, and 22 is this machine's own SSH port."""
    if case.cluster.target.publishes_ports and case.cluster.access.port < _PRIVILEGED:
        yield Violation("access.port", f"{case.cluster.access.port} is a privileged port", _OTHER_HINT)


@rule("port-in-use-by-service")
def port_in_use_by_service(case: RuleContext) -> Iterator[Violation]:
    """A port of one of the cluster's services is misleading, and blocks the service if login is the only node."""
    for port in _published(case):
        for known in catalog.ports():
            if known.first <= port <= known.last:
                yield Violation("access.port", f"port {port} belongs to {known.service}", _OTHER_HINT)


@rule("port-overflow")
def port_overflow(case: RuleContext) -> Iterator[Violation]:
    """Further login nodes are published on the ports after the first node's."""
    last = max(_published(case), default=0)
    if last > _LAST_PORT:
        yield Violation(
            "access.port", f"the last login node would be published on port {last}", f"use a lower port; the highest is {_LAST_PORT}"
        )


@rule("allow-empty")
def allow_empty(case: RuleContext) -> Iterator[Violation]:
    """A firewall that admits no network blocks provisioning, too."""
    if not case.cluster.access.allowed_cidrs:
        yield Violation(
            "access.allowed_cidrs", "must not be empty: not even provisioning could connect", "list networks, like [192.168.0.0/16]"
        )


@rule("allow-overlap", Severity.WARNING)
def allow_overlap(case: RuleContext) -> Iterator[Violation]:
    """A network inside another one has no effect, and hides that the other one is open."""
    for first, second in combinations(case.cluster.access.allowed_cidrs, 2):
        if first == second:
            yield Violation("access.allowed_cidrs", f"{first} is listed twice", "remove one of them")
        elif first.overlaps(second):
            wider, narrower = (first, second) if first.prefixlen <= second.prefixlen else (second, first)
            yield Violation(
                "access.allowed_cidrs", f"{narrower} is already part of {wider}", f"remove {narrower}, or {wider} if it is not intended"
            )


@rule("allow-ipv6")
def allow_ipv6(case: RuleContext) -> Iterator[Violation]:
    """Only existing machines can have IPv6 addresses: networks that rackwright creates have none."""
    target = case.cluster.target
    for index, network in enumerate(case.cluster.access.allowed_cidrs):
        if isinstance(network, IPv6Network) and not isinstance(target, HostsTarget):
            cause = f"{network} is an IPv6 network, and nodes of target {target.kind} have IPv4 addresses only"
            yield Violation(f"access.allowed_cidrs[{index}]", cause, "remove it, or enter the IPv4 network")


@rule("listen-wildcard", Severity.WARNING)
def listen_wildcard(case: RuleContext) -> Iterator[Violation]:
    """The login node is then reachable from every network of this machine."""
    access = case.cluster.access
    if case.cluster.target.publishes_ports and access.bind_address.is_unspecified:
        anybody = ", and access.allowed_cidrs permits every address" if _ANYBODY in access.allowed_cidrs else ""
        cause = f"{access.bind_address} publishes the login node on every network of this machine{anybody}"
        yield Violation(
            "access.bind_address", cause, "use 127.0.0.1, or the one address that users connect to, and a short access.allowed_cidrs"
        )


@rule("bind-address-unusable")
def bind_address_unusable(case: RuleContext) -> Iterator[Violation]:
    """No interface of a machine has a multicast or broadcast address."""
    address = case.cluster.access.bind_address
    if case.cluster.target.publishes_ports and (address.is_multicast or address.is_reserved):
        hint = "use 127.0.0.1, or the address of this machine that users connect to"
        yield Violation("access.bind_address", f"{address} is not an address of a machine", hint)


@rule("listen-on-cluster-address")
def listen_on_cluster_address(case: RuleContext) -> Iterator[Violation]:
    """The cluster's own addresses belong to its nodes."""
    access, cidr = case.cluster.access, case.cluster.network.cidr
    if access.bind_address in cidr:
        yield Violation(
            "access.bind_address",
            f"{access.bind_address} is in the cluster's own network {cidr}",
            "use an address of this machine, like 127.0.0.1",
        )
