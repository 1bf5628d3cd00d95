"""Output of `ibnetdiscover -p` for the unit tests, in the form of rdma-core's ibnetdiscover.c. All GUIDs and names are invented."""

from __future__ import annotations

from typing import NamedTuple


class Dev(NamedTuple):
    """A device: its type as the tool prints it, its GUID, its node description."""

    kind: str
    guid: int
    description: str
    lid: int = 7


def adapter(guid: int, description: str, lid: int = 7) -> Dev:
    """Return an adapter, by the GUID of its port."""
    return Dev("CA", guid, description, lid)


def switch(guid: int, description: str, lid: int = 7) -> Dev:
    """Return a switch."""
    return Dev("SW", guid, description, lid)


def link(one: Dev, port: int, other: Dev, other_port: int, rate: str = "4x NDR") -> str:
    """Return both lines of a link."""
    ends = [f"{device.kind} {device.lid:>5} {number:>2} {device.guid:#018x}" for device, number in ((one, port), (other, other_port))]
    names = [f"'{device.description}'" for device in (one, other)]
    return f"{ends[0]} {rate} - {ends[1]} ( {names[0]} - {names[1]} )\n{ends[1]} {rate} - {ends[0]} ( {names[1]} - {names[0]} )\n"


def unused(device: Dev, port: int, rate: str = "4x SDR") -> str:
    """Return the line of a port without a link."""
    return f"{device.kind} {device.lid:>5} {port:>2} {device.guid:#018x} {rate}{'':>36}'{device.description}'\n"
