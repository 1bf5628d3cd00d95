"""Supported switches of a fabric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

from rackwright.catalog import rows, site

SPLIT: Final = 2
"""Links of a split port, each with half of its lanes (MLNX-OS user manual, InfiniBand Interface: Quantum and Quantum-2)."""


class Use(StrEnum):
    """The plane that a switch belongs to."""

    COMPUTE = "compute"
    MANAGEMENT = "management"


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch model; every port has the same rate."""

    model: str
    product: str
    use: Use
    link_layer: str
    """InfiniBand or Ethernet."""
    ports: int
    rate_gbps: int
    speed: str
    """As printed by `ibnetdiscover -p` (NDR), or the rate of Ethernet (400GbE)."""
    width: str
    """Lanes of a link, as in `4x`."""
    split_rate: str | None
    """NVIDIA's name for the rate of half a port, such as NDR200; None if no source says that ports can be split."""
    rack_units: int | None
    """None without a source."""
    line_card: str | None
    """Director switch: chips of a line card by external ports of a chip, as 2x18; None for a switch of one chip."""
    subnet_manager: bool | None
    """Whether it can run a subnet manager; None without a source."""
    subnet_manager_nodes: int | None
    """Maximum number of nodes of the switch's own subnet manager; None without a source."""

    def links_per_port(self, rate: str | None) -> int | None:
        """Return the links of a port at a rate: one at its own rate, two if it is split; None if ports do not have this rate."""
        if rate in (None, self.speed):
            return 1
        return SPLIT if rate == self.split_rate else None


@dataclass(frozen=True, slots=True)
class Medium:
    """Type of a cable for one speed."""

    name: str
    speed: str
    reach_m: int


@cache
def media(speed: str) -> tuple[Medium, ...]:
    """Return the types of cables of a speed, the shortest first; empty without a source."""
    found = (Medium(row["name"], row["speed"], int(row["reach_m"])) for row in rows("cables") if row["speed"] == speed)
    return tuple(sorted(found, key=lambda medium: medium.reach_m))


def switches() -> Mapping[str, Switch]:
    """Return all known switches by model: the product's and the site's."""
    added = site.catalog().rows.switches
    if not added:
        return _product_switches()
    return {**{model: _site_switch(model, row) for model, row in added.items()}, **_product_switches()}


@cache
def _product_switches() -> Mapping[str, Switch]:
    return {row["model"]: _switch(row) for row in rows("switches")}


def _site_switch(model: str, row: site.SiteSwitch) -> Switch:
    return Switch(
        model=model,
        product=row.product,
        use=Use(row.use),
        link_layer=row.link_layer,
        ports=row.ports,
        rate_gbps=row.rate_gbps,
        speed=row.speed,
        width=row.width,
        split_rate=row.split_rate,
        rack_units=row.rack_units,
        line_card=row.line_card,
        subnet_manager=row.subnet_manager,
        subnet_manager_nodes=row.subnet_manager_nodes,
    )


def _switch(row: Mapping[str, str]) -> Switch:
    return Switch(
        model=row["model"],
        product=row["product"],
        use=Use(row["use"]),
        link_layer=row["link_layer"],
        ports=int(row["ports"]),
        rate_gbps=int(row["rate_gbps"]),
        speed=row["speed"],
        width=row["width"],
        split_rate=row["split_rate"] or None,
        rack_units=int(row["rack_units"]) if row["rack_units"] else None,
        line_card=row["line_card"] or None,
        subnet_manager={"yes": True, "no": False}.get(row["subnet_manager"]),
        subnet_manager_nodes=int(row["subnet_manager_nodes"]) if row["subnet_manager_nodes"] else None,
    )
