"""Addresses and MACs of nodes; `derive.layout` assigns the groups' blocks."""

from __future__ import annotations

import hashlib
from ipaddress import IPv4Address, IPv4Network


def address(cidr: IPv4Network, block: int, index: int) -> IPv4Address:
    """Return the address of a group's node.

    >>> str(address(IPv4Network("10.77.0.0/24"), 24, 1))
    '10.77.0.25'
    """
    return cidr.network_address + (block + index)


def mac(stack: str, node: str) -> str:
    """Return a locally administered MAC, constant for a node name: a new one under an old address stalls peers on stale ARP.

    >>> mac("lab", "login0")
    '02:43:da:30:bc:e1'
    """
    digest = hashlib.sha256(f"{stack}/{node}".encode()).digest()[:5]
    return ":".join(f"{byte:02x}" for byte in (2, *digest))
