"""Switches that a fabric may be built of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from rackwright.catalog import rows


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch model; every port has the same rate."""

    model: str
    product: str
    link_layer: str
    """InfiniBand or Ethernet."""
    ports: int
    rate_gbps: int
    speed: str
    """As `ibnetdiscover -p` says it (NDR), or the rate in words of Ethernet (400GbE)."""
    width: str
    """Lanes of a link."""
    rack_units: int
    device_id: str
    """PCI device id of its chip, what a netlist says of it; empty where it is no InfiniBand switch."""
    subnet_manager_nodes: int | None
    """Nodes that the subnet manager in the switch can serve; None where it has none."""


@cache
def switches() -> Mapping[str, Switch]:
    """All known switches by model."""
    return {row["model"]: _switch(row) for row in rows("switches")}


def _switch(row: Mapping[str, str]) -> Switch:
    return Switch(
        model=row["model"],
        product=row["product"],
        link_layer=row["link_layer"],
        ports=int(row["ports"]),
        rate_gbps=int(row["rate_gbps"]),
        speed=row["speed"],
        width=row["width"],
        rack_units=int(row["rack_units"]),
        device_id=row["device_id"],
        subnet_manager_nodes=int(row["subnet_manager_nodes"]) if row["subnet_manager_nodes"] else None,
    )
