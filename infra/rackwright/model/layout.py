"""Where groups lie in the network: pure arithmetic on what is declared, stable under scaling.

Every group owns a block of `capacity` addresses; blocks lie in declared order from the base of their subnet + 16. So a node's address
depends on the groups declared before its own and on its index, never on how many nodes there are. Changing this allocator renumbers
running clusters.
"""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Final

from rackwright.model.cluster import Cluster
from rackwright.model.groups import Group, Role, roles_of
from rackwright.model.tier import Tier

FIRST_OFFSET: Final = 16
"""Below it: the gateway and whatever a target or a person needs beside the nodes."""
WORKER_CAPACITY: Final = 64
OTHER_CAPACITY: Final = 8


def capacity_of(name: str, group: Group) -> int:
    """How many addresses the group owns.

    >>> capacity_of("worker", Group(count=2))
    64
    """
    if group.capacity is not None:
        return group.capacity
    return WORKER_CAPACITY if Role.WORKER in roles_of(name, group) else OTHER_CAPACITY


def tier_of(cluster: Cluster, group: str) -> Tier:
    """The part of the network a group lies in: with a way in from outside if people log in there and the target has such a part."""
    people = Role.LOGIN in roles_of(group, cluster.groups[group])
    return Tier.PUBLIC if people and Tier.PUBLIC in cluster.target.subnets(cluster.network.cidr) else Tier.PRIVATE


def blocks(cluster: Cluster) -> dict[str, int]:
    """The offset of each group's first address from the network's base."""
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
    """How many addresses groups can share: all but those below FIRST_OFFSET and the broadcast address."""
    return max(0, cidr.num_addresses - FIRST_OFFSET - 1)


def login_ports(cluster: Cluster) -> dict[str, int]:
    """The published port of every declared login node: the first one's, plus the distance of their addresses, so that none ever moves.

    Where this machine publishes nothing, there are none.
    """
    if not cluster.target.publishes:
        return {}
    offsets = blocks(cluster)
    places = {
        f"{name}{index}": offsets[name] + index
        for name, group in cluster.groups.items()
        if Role.LOGIN in roles_of(name, group)
        for index in range(group.count)
    }
    first = min(places.values(), default=0)
    return {name: cluster.access.port + place - first for name, place in places.items()}
