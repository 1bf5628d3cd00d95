"""Probe of flannel's network on a node: its address range, the tunnel, the routes to other nodes."""

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
    """Network of the pods on one node."""

    network: str
    """Address range of all pods in flannel's subnet file; empty where the file does not exist on this node."""
    range: str
    """Address range of the pods of this node."""
    mtu: int
    tunnel: Tunnel | None
    mtus: Mapping[str, int]
    """Tunnels by interface."""
    addresses: Mapping[str, str]
    """Interface by IPv4 address."""
    routes: Mapping[str, str]
    """`via ADDRESS dev INTERFACE` by address range."""
    ends: frozenset[str]
    """Addresses of nodes to which the tunnel sends."""


def parse_podnetwork(text: str) -> PodNetwork:
    """Return the network from four parts: flannel's subnet file, links, routes, the forwarding table of the tunnel."""
    subnet_file, links, routes, ends = (part.strip() for part in text.replace("\r\n", "\n").split("\n==\n"))
    settings = dict(line.split("=", 1) for line in subnet_file.splitlines() if "=" in line)
    shown = [one for one in json.loads(links) if one]  # iproute2 prints {} for an interface that it leaves out
    if not shown:
        raise ValueError("no interfaces are listed")
    return PodNetwork(
        network=settings.get("FLANNEL_NETWORK", ""),
        range=str(ip_interface(settings["FLANNEL_SUBNET"]).network) if settings.get("FLANNEL_SUBNET") else "",
        mtu=int(settings.get("FLANNEL_MTU") or 0),
        tunnel=next((_tunnel(one) for one in shown if one["ifname"] == TUNNEL), None),
        mtus={one["ifname"]: one["mtu"] for one in shown},
        addresses={own["local"]: one["ifname"] for one in shown for own in one.get("addr_info", ()) if own.get("family") == "inet"},
        # The kernel lists the routes of a range by metric, and uses the first.
        routes={one["dst"]: _shown_route(one) for one in reversed(json.loads(routes)) if one},
        ends=frozenset(one["dst"] for one in json.loads(ends or "[]") if "dst" in one),
    )


def _shown_route(one: Mapping[str, Any]) -> str:
    return f"via {one.get('gateway', 'no gateway')} dev {one.get('dev', 'none')}"


def _tunnel(link: Mapping[str, Any]) -> Tunnel:
    data = link.get("linkinfo", {}).get("info_data", {})
    return Tunnel(data.get("id", 0), data.get("port", 0), data.get("local", ""), "UP" in link["flags"])


_LOOK = (
    "echo subnet; cat /run/flannel/subnet.env 2>/dev/null; echo; echo ==;"
    " ip -j -d address show; echo; echo ==; ip -j -4 route show; echo; echo ==;"
    f" if ip link show dev {TUNNEL} >/dev/null 2>&1; then bridge -j fdb show dev {TUNNEL}; fi"
)
PODNETWORK = Probe("podnetwork", on="kubernetes", command=_LOOK, parse=parse_podnetwork)
