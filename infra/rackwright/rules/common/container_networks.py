"""Container networks on the nodes: ranges of Docker, Podman and Kubernetes, against the networks of the cluster and of its users.

A node sends every packet for such a range to the bridge, also the answers to a machine outside that has an address in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network
from typing import Final, NamedTuple

from rackwright.catalog.container_networks import ContainerNetwork, Use, container_networks
from rackwright.model.finding import Severity
from rackwright.model.targets.hosts import HostsTarget
from rackwright.rules.registry import RuleContext, Violation, rule

_SETTING: Final = {
    "docker": "`bip` and `default-address-pools` in /etc/docker/daemon.json",
    "podman": "`default_subnet` and `default_subnet_pools` in /etc/containers/containers.conf",
}
"""Where an administrator sets another range (dockerd(8), containers.conf(5)). No role writes these files."""
_SLIRP: Final = ("debian-12", "ubuntu-22.04", "ubuntu-24.04")
"""Releases whose Podman is older than 5.0 and uses slirp4netns (packages: 4.3, 3.4 and 4.9)."""
_ENGINE: Final = {"docker": "Docker", "podman": "Podman"}


class _Range(NamedTuple):
    """A range that is routed to a bridge, its owner as text, and the remedy."""

    network: IPv4Network
    owner: str
    hint: str


def _ranges(case: RuleContext, uses: Iterable[Use]) -> list[_Range]:
    """Return the ranges that the declared engines assign at these times."""
    software = case.cluster.software
    declared = {runtime.value for runtime in software.containers} if software else set()
    return [_range(row) for row in container_networks() if row.runtime in declared and row.use in uses]


def _range(row: ContainerNetwork) -> _Range:
    kind = "default network" if row.use is Use.DEFAULT else "range for users' networks"
    hint = f"use other addresses, or set another range on the nodes before the first `up`: {_SETTING[row.runtime]}"
    return _Range(row.network, f"{_ENGINE[row.runtime]}'s {kind} on the nodes (interface {row.bridge})", hint)


@rule("container-network-nodes", Severity.WARNING)
def container_network_nodes(case: RuleContext) -> Iterator[Violation]:
    """Docker avoids a range to which a route exists when dockerd starts, Podman does not: which comes first differs from boot to boot."""
    target = case.cluster.target
    if not isinstance(target, HostsTarget):  # Where rackwright creates the network, network-overlap checks its range.
        return
    addresses = {name: machine.address for name, machine in target.machine_by_node.items() if machine.address is not None}
    for taken in _ranges(case, [Use.DEFAULT]):
        inside = [name for name, address in addresses.items() if address in taken.network]
        if inside:
            whose = f"{inside[0]} and {len(inside) - 1} more have" if len(inside) > 1 else f"{inside[0]} has"
            cause = f"{taken.network} is {taken.owner}, and {whose} an address in it"
            yield Violation("network.cidr", cause, taken.hint)


@rule("container-network-rootless", Severity.WARNING)
def container_network_rootless(case: RuleContext) -> Iterator[Violation]:
    """A container of an ordinary user takes packets for this range for those of its own network: jobs cannot reach such a node."""
    target = case.cluster.target
    if not isinstance(target, HostsTarget):
        return
    runs = [member.name for member in case.members if target.os_of(member.name) in _SLIRP]
    for taken in _ranges(case, [Use.ROOTLESS]) if runs else ():
        inside = [name for name, machine in target.machine_by_node.items() if machine.address and machine.address in taken.network]
        if inside:
            cause = f"{taken.network} is the network inside of rootless containers on {runs[0]}, which cannot reach {inside[0]}"
            hint = "use other addresses, or a system with Podman 5, such as debian-13 or rocky-9"
            yield Violation(f"target.machines.{inside[0]}.address", cause, hint)


@rule("container-network-pods")
def container_network_pods(case: RuleContext) -> Iterator[Violation]:
    """Packets for pods and services of that range would arrive at the engine's bridge."""
    declared = case.kubernetes
    if declared is None:
        return
    for path, network in (("scheduler.pod_cidr", declared.pod_cidr), ("scheduler.service_cidr", declared.service_cidr)):
        for taken in _ranges(case, [Use.DEFAULT]):
            if network.overlaps(taken.network):
                yield Violation(path, f"{network} overlaps {taken.network}: {taken.owner}", "use another private range, like 10.244.0.0/16")


@rule("container-network-allow", Severity.WARNING)
def container_network_allow(case: RuleContext) -> Iterator[Violation]:
    """Clients in such a network get no response: the login node sends it to a bridge."""
    yield from _unanswered(case, [*_ranges(case, [Use.DEFAULT, Use.POOL]), *_cluster_ranges(case)])


@rule("container-network-allow-late", Severity.INFO)
def container_network_allow_late(case: RuleContext) -> Iterator[Violation]:
    """The engine assigns these ranges only after users have created many networks."""
    yield from _unanswered(case, _ranges(case, [Use.LAST]))


def _unanswered(case: RuleContext, ranges: Iterable[_Range]) -> Iterator[Violation]:
    for index, network in enumerate(case.cluster.access.allowed_cidrs):
        for taken in ranges:
            if isinstance(network, IPv4Network) and network.subnet_of(taken.network):
                part = "is" if network == taken.network else f"is part of {taken.network},"
                cause = f"{network} {part} {taken.owner}; answers to its machines would not leave the login node"
                yield Violation(f"access.allowed_cidrs[{index}]", cause, taken.hint)


def _cluster_ranges(case: RuleContext) -> list[_Range]:
    """Return the networks of pods and services; the rule on overlapping ranges compares these with the network of the nodes."""
    declared = case.kubernetes
    if declared is None:
        return []
    return [
        _Range(declared.pod_cidr, "the pod network", "set `scheduler.pod_cidr` to a range without clients, like 10.244.0.0/16"),
        _Range(
            declared.service_cidr,
            "the service network",
            "set `scheduler.service_cidr` to a range without clients, like 10.245.0.0/16",
        ),
    ]
