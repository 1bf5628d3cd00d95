"""Virtual machines on this machine: what target `vm` cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Final

from rackwright.catalog.switches import Use
from rackwright.derive.fabric import port_of, rails_of, switch_of
from rackwright.derive.rails import rail_networks
from rackwright.model.fabric.switches import FabricKind
from rackwright.model.finding import Severity
from rackwright.model.targets.hosts import HostsOs
from rackwright.model.targets.vm import VmTarget
from rackwright.model.units import format_bytes
from rackwright.rules.registry import RuleContext, Violation, rule

_ANYBODY: Final = IPv4Network("0.0.0.0/0")
_MOST_MEMORY: Final = 16 * 2**30
"""Memory of all machines together beyond which a laptop swaps. Chosen."""
_FORWARD: Final = IPv4Network("192.0.2.0/24")
"""Network of forwarded connections (rackwright.drivers.vm.command_line)."""


@rule("vm-kubernetes")
def vm_kubernetes(case: RuleContext) -> Iterator[Violation]:
    """The machine image has no bundle of Kubernetes."""
    if isinstance(case.cluster.target, VmTarget) and case.kubernetes is not None:
        yield Violation("scheduler.kind", "virtual machines of target vm run Slurm only", "use `kind: slurm`, or target lab")


@rule("vm-cloud-image")
def vm_cloud_image(case: RuleContext) -> Iterator[Violation]:
    """The image that is built here has Debian 13 and software RDMA; a vendor's image has its own system, and usually a kernel without."""
    target = case.cluster.target
    if not isinstance(target, VmTarget):
        return
    if target.cloud_image is None:
        if target.os is not HostsOs.DEBIAN_13:
            cause = f"the image that is built here has debian-13, and no {target.os}"
            yield Violation("target.os", cause, f"declare `cloud_image` with an image of {target.os}, or remove `os`")
        return
    if case.cluster.fabric is not None:
        cause = "kernels of cloud images have no software RDMA over Ethernet (rdma_rxe)"
        yield Violation("fabric", cause, "remove `fabric`, or `target.cloud_image`")
    for name in ("image", "mirror"):
        if name in target.model_fields_set:
            cause = "describes the image that is built here, and the nodes start from `cloud_image`"
            yield Violation(f"target.{name}", cause, "remove it")


@rule("vm-allowed-cidrs")
def vm_allowed_cidrs(case: RuleContext) -> Iterator[Violation]:
    """QEMU forwards connections from an address of its own, so that a node cannot see where they come from."""
    access = case.cluster.access
    if isinstance(case.cluster.target, VmTarget) and not access.bind_address.is_loopback and _ANYBODY not in access.allowed_cidrs:
        cause = "has no effect: the forwarded port hides the sender's address from the node"
        yield Violation("access.allowed_cidrs", cause, "use `bind_address: 127.0.0.1`, or a firewall of this machine and 0.0.0.0/0 here")


@rule("vm-size", Severity.WARNING)
def vm_size(case: RuleContext) -> Iterator[Violation]:
    """One machine runs all virtual machines, whose memory it needs at the same time."""
    total = sum(member.memory for member in case.members) if isinstance(case.cluster.target, VmTarget) else 0
    if total > _MOST_MEMORY:
        yield Violation("groups", f"the virtual machines have {format_bytes(total)} of memory together", "reduce `count` or `memory`")


@rule("vm-rdma")
def vm_rdma(case: RuleContext) -> Iterator[Violation]:
    """The machine image has software RDMA over Ethernet (rdma_rxe), which loses frames at rates that an emulated machine misses."""
    fabric = case.cluster.fabric
    if fabric is None or not isinstance(case.cluster.target, VmTarget):
        return
    if fabric.kind is not FabricKind.ROCE:
        cause = f"virtual machines have no {fabric.kind} adapters: their kernel has software RDMA over Ethernet only (rdma_rxe)"
        yield Violation("fabric.kind", cause, "use `kind: roce` and `switch: vm-4p` or `vm-64p`, or target lab, which simulates InfiniBand")
    switch = switch_of(fabric)
    if switch is None or switch.use is not Use.SIMULATION or port_of(fabric) is not None:
        return
    if fabric.split not in (None, 1):
        yield Violation("fabric.split", f"ports of {switch.product} cannot be split", "remove it")
        return
    cause = (
        f"{fabric.rate} is no rate of a link between virtual machines, which has at most {switch.speed}: faster senders of software RDMA "
    )
    cause += "overrun the receiver, and each lost frame makes them send all later ones again"
    yield Violation("fabric.rate", cause, f"use `rate: {switch.speed}` or less, like 50MbE")


@rule("vm-rail-networks")
def vm_rail_networks(case: RuleContext) -> Iterator[Violation]:
    """Each rail has a network as large as the cluster's. Nodes would send to a network that overlaps it over the wrong card."""
    target, fabric, cluster = case.cluster.target, case.cluster.fabric, case.cluster.network.cidr
    if fabric is None or not isinstance(target, VmTarget):
        return
    path, whole, rails = "target.rail_cidr", target.rail_cidr, rails_of(case.cluster, fabric)
    for network, owner in ((cluster, "`network.cidr`"), (_FORWARD, "the network of forwarded ports")):
        if whole.overlaps(network):
            yield Violation(path, f"{whole} overlaps {network}, {owner}", "use another range, or remove it: 198.18.0.0/15 is the default")
    if whole.is_loopback or whole.is_multicast or whole.is_link_local:
        yield Violation(path, f"hosts cannot have addresses of {whole}", "remove it: 198.18.0.0/15 is the default")
    if sum(1 for _ in zip(range(rails), rail_networks(whole, cluster), strict=False)) < rails:
        widest = cluster.prefixlen - (rails - 1).bit_length()
        cause = f"{whole} has no room for {rails} networks as large as {cluster}, one for each rail"
        yield Violation(path, cause, f"use a /{widest} or wider, or fewer rails")
