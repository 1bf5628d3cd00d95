"""A network of two leaves and two spines for tests, and what its ports get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.ethernet import ethernet, udp

from rackwright.drivers.vm.network.forwarding import Network
from rackwright.drivers.vm.network.topology import Cable, Port, Switch, Topology

MACS = {name: f"52:54:00:00:00:{number:02x}" for number, name in enumerate(("w0", "w1", "w2", "w3", "c0", "c1"))}
OTHER = "02:00:00:00:00:99"
"""An address that no port declares."""
SPINES = ("s1", "s2")
SIZE = 1250 - 24
"""Bytes of a frame that occupies a link of 100 Mbit/s for 100 µs, with preamble, check sequence and gap."""


def topology(*, mtu: int = 4400, ports: Mapping[str, Any] | None = None, cables: Mapping[str, Any] | None = None) -> Topology:
    """Return w0 and w1 on leaf l1, w2 and w3 on leaf l2, two spines, and apart from them c0 and c1 on one switch."""
    switches = {"w0": "l1", "w1": "l1", "w2": "l2", "w3": "l2", "c0": "cluster", "c1": "cluster"}
    return Topology(
        switches={name: Switch(mtu=mtu) for name in ("l1", "l2", *SPINES, "cluster")},
        ports=tuple(
            Port(name=name, switch=switch, mac=MACS[name], peer=f"{name}.peer", **(ports or {})) for name, switch in switches.items()
        ),
        cables=tuple(Cable(name=f"{leaf}-{spine}", a=leaf, b=spine, **(cables or {})) for leaf in ("l1", "l2") for spine in SPINES),
    )


def frame(source: str, destination: str, size: int = 100, **given: Any) -> bytes:
    """Return a frame between ports or addresses, of this size in bytes without a tag."""
    return ethernet(MACS.get(source, source), MACS.get(destination, destination), bytes(size - 14), **given)


def flow(source: str, destination: str, port: int) -> bytes:
    """Return a frame of RoCEv2 with this source port."""
    return ethernet(MACS[source], MACS[destination], udp("10.0.0.1", "10.0.0.2", (port, 4791)), kind=0x0800)


def receivers(network: Network, port: str, sent: bytes, now: float = 0.0) -> list[str]:
    """Return the ports that get the frame, once each time."""
    return sorted(delivery.port for delivery in network.receive(port, sent, now))


def drops(network: Network, name: str, way: str) -> dict[str, int]:
    """Return the drops of one direction by reason."""
    link = network.ports.get(name) or network.cables[name]
    return next(direction.counters.as_row()["drops"] for direction in link.directions() if direction.name == way)


def carried(network: Network) -> dict[str, int]:
    """Return the frames that each cable has carried."""
    return {name: sum(way.counters.frames for way in cable.directions()) for name, cable in network.cables.items()}
