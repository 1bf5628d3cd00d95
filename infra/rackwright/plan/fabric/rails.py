"""Rails of virtual machines: a card with an address of its own for each HCA of a node, on the network of its rail."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, Final, NamedTuple

from rackwright.derive.rails import rail_networks
from rackwright.model.targets.vm import VmTarget
from rackwright.plan.addresses import mac

if TYPE_CHECKING:
    from rackwright.plan.schema import Plan, PlanNode

MTU: Final = 4400
"""Bytes of a rail's frames: RDMA messages of 4096, the largest MTU of InfiniBand and RoCE, with the headers of RoCEv2. rxe takes the
largest MTU of RDMA that fits below that of the card less 80 bytes (Linux: drivers/infiniband/sw/rxe, RXE_MAX_HDR_LENGTH)."""


class RailInterface(NamedTuple):
    """The card of a rail on a node."""

    name: str
    """Interface, as in `eth1`; eth0 is the cluster's network."""
    device: str
    """RDMA device on it, as in `rxe0`."""
    mac: str
    address: str
    prefix: int
    mtu: int


def rail_interfaces(plan: Plan, node: PlanNode) -> tuple[RailInterface, ...]:
    """Return the cards of a node's rails. Empty for other targets, whose HCAs exist or are simulated without links.

    The host part of an address is that of the node's own address, the same on each rail.
    """
    target, cluster = plan.target, IPv4Network(plan.network.cidr)
    if not isinstance(target, VmTarget):
        return ()
    host = int(IPv4Address(node.address)) - int(cluster.network_address)
    return tuple(
        RailInterface(
            name=f"eth{number + 1}",
            device=device,
            mac=mac(plan.stack, f"{node.name}.eth{number + 1}"),
            address=str(network.network_address + host),
            prefix=network.prefixlen,
            mtu=MTU,
        )
        for number, (device, network) in enumerate(zip(node.rails, rail_networks(target.rail_cidr, cluster), strict=False))
    )
