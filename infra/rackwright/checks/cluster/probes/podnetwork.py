"""What a node has of flannel's network: the range that it was told, the tunnel, the ways to other nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_interface
from typing import Any

from rackwright.checks.cluster.harness.probe import Probe

TUNNEL = "flannel.1"
BRIDGE = "cni0"


@dataclass(frozen=True)
class Tunnel:
    """A VXLAN device."""

    number: int
    port: int
    local: str
    up: bool


@dataclass(frozen=True)
class PodNetwork:
    """All of it on one node."""

    network: str
    """Range of all pods, as flannel was told; empty where it has told this node nothing."""
    range: str
    """That of this node's."""
    mtu: int
    tunnel: Tunnel | None
    mtus: Mapping[str, int]
    """By interface."""
    addresses: Mapping[str, str]
    """IPv4 address to the interface that has it."""
    ways: Mapping[str, str]
    """Range to `via ADDRESS dev INTERFACE`."""
    ends: frozenset[str]
    """Addresses of nodes that the tunnel sends to."""


def parse_podnetwork(text: str) -> PodNetwork:
    """Four parts: what flannel told, links, routes, the tunnel's forwarding table."""
    told, links, routes, ends = (part.strip() for part in text.split("\n==\n"))
    said = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
    shown = json.loads(links)
    if not shown:
        raise ValueError("no interfaces are listed")
    return PodNetwork(
        network=said.get("FLANNEL_NETWORK", ""),
        range=str(ip_interface(said["FLANNEL_SUBNET"]).network) if "FLANNEL_SUBNET" in said else "",
        mtu=int(said.get("FLANNEL_MTU", 0)),
        tunnel=next((_tunnel(one) for one in shown if one["ifname"] == TUNNEL), None),
        mtus={one["ifname"]: one["mtu"] for one in shown},
        addresses={own["local"]: one["ifname"] for one in shown for own in one.get("addr_info", ()) if own["family"] == "inet"},
        ways={one["dst"]: f"via {one.get('gateway', 'nobody')} dev {one.get('dev', 'none')}" for one in json.loads(routes)},
        ends=frozenset(one["dst"] for one in json.loads(ends or "[]") if "dst" in one),
    )


def _tunnel(link: Mapping[str, Any]) -> Tunnel:
    data = link.get("linkinfo", {}).get("info_data", {})
    return Tunnel(data.get("id", 0), data.get("port", 0), data.get("local", ""), "UP" in link["flags"])


_LOOK = (
    "echo told; cat /run/flannel/subnet.env 2>/dev/null; echo; echo ==;"
    " ip -j -d address show; echo; echo ==; ip -j -4 route show; echo; echo ==;"
    f" if ip link show dev {TUNNEL} >/dev/null 2>&1; then bridge -j fdb show dev {TUNNEL}; fi"
)
PODNETWORK = Probe("podnetwork", on="kubernetes", command=_LOOK, parse=parse_podnetwork)
