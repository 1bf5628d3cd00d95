"""Addresses of groups in the network: pure arithmetic on the stack file, stable under scaling.

Every group owns a block of `reserved_addresses`; blocks follow in declared order from the base of their subnet + 16. A node's address
therefore depends on the groups declared before its own and on its index, never on the number of nodes. Changing this allocator
renumbers running clusters.
"""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Final

from rackwright.model.cluster import Cluster
from rackwright.model.groups import Group, Role, node_names_of, roles_of
from rackwright.model.tier import Tier

FIRST_OFFSET: Final = 16
"""Addresses below this offset are for the gateway and for other uses of a target or an administrator."""
WORKER_CAPACITY: Final = 64
OTHER_CAPACITY: Final = 8
"""Addresses that a group without `reserved_addresses` owns. Chosen: a /24 holds three groups of workers and some others, and a group
grows to that size without new addresses for the groups behind it."""


def capacity_of(name: str, group: Group) -> int:
    """Return the number of addresses that the group owns.

    >>> capacity_of("worker", Group(count=2))
    64
    """
    if group.reserved_addresses is not None:
        return group.reserved_addresses
    return WORKER_CAPACITY if Role.WORKER in roles_of(name, group) else OTHER_CAPACITY


def tier_of(cluster: Cluster, group: str) -> Tier:
    """Return the part of the network of a group: public for login nodes if the target has a public part, else private."""
    people = Role.LOGIN in roles_of(group, cluster.groups[group])
    return Tier.PUBLIC if people and Tier.PUBLIC in cluster.target.subnets(cluster.network.cidr) else Tier.PRIVATE


def blocks(cluster: Cluster) -> dict[str, int]:
    """Return the offset of each group's first address from the network's base."""
    base = int(cluster.network.cidr.network_address)
    following = {
        tier: int(subnet.network_address) - base + FIRST_OFFSET for tier, subnet in cluster.target.subnets(cluster.network.cidr).items()
    }
    offsets: dict[str, int] = {}
    for name, group in cluster.groups.items():
        tier = tier_of(cluster, name)
        offsets[name] = following[tier]
        following[tier] += capacity_of(name, group)
    return offsets


def space(cidr: IPv4Network) -> int:
    """Return the number of addresses for groups: all except those below FIRST_OFFSET and the broadcast address."""
    return max(0, cidr.num_addresses - FIRST_OFFSET - 1)


def login_ports(cluster: Cluster) -> dict[str, int]:
    """Return the published port of every declared login node, or an empty mapping if the target publishes no ports.

    A port is the first node's plus the distance of the addresses, so that ports never change.
    """
    if not cluster.target.publishes_ports:
        return {}
    offsets = blocks(cluster)
    places = {
        node: offsets[name] + index
        for name, group in cluster.groups.items()
        if Role.LOGIN in roles_of(name, group)
        for index, node in enumerate(node_names_of(name, group))
    }
    first = min(places.values(), default=0)
    return {name: cluster.access.port + place - first for name, place in places.items()}
