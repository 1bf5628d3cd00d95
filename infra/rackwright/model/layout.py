"""Where groups lie in the network: pure arithmetic on what is declared, stable under scaling.

Every group owns a block of `capacity` addresses; blocks lie in declared order from the network's base + 16. So a node's address depends on
the groups declared before its own and on its index, never on how many nodes there are. Changing this allocator renumbers running clusters.
"""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Final

from rackwright.model.cluster import Cluster
from rackwright.model.groups import Group, Role
from rackwright.model.members import Member, capacity_of, members

FIRST_OFFSET: Final = 16
"""Below it: the gateway and whatever a target or a person needs beside the nodes."""


def blocks(groups: dict[str, Group]) -> dict[str, int]:
    """The offset of each group's first address from the network's base.

    >>> blocks({"login": Group(count=1), "worker": Group(count=2), "storage": Group(count=1)})
    {'login': 16, 'worker': 24, 'storage': 88}
    """
    offsets: dict[str, int] = {}
    following = FIRST_OFFSET
    for name, group in groups.items():
        offsets[name] = following
        following += capacity_of(name, group)
    return offsets


def space(cidr: IPv4Network) -> int:
    """How many addresses groups can share: all but those below FIRST_OFFSET and the broadcast address."""
    return max(0, cidr.num_addresses - FIRST_OFFSET - 1)


def login_ports(cluster: Cluster) -> dict[str, int]:
    """The published port of every declared login node: the first one's, plus the distance of their addresses, so that none ever moves.

    Where the network is not ours, nothing is published.
    """
    if not cluster.target.owns_network:
        return {}
    offsets = blocks(cluster.groups)
    logins = [member for member in members(cluster) if Role.LOGIN in member.roles]
    places = {member.name: _place(member, offsets) for member in logins}
    first = min(places.values(), default=0)
    return {name: cluster.access.port + place - first for name, place in places.items()}


def _place(member: Member, offsets: dict[str, int]) -> int:
    return offsets[member.group] + member.index
