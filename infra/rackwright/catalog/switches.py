"""Supported switches of a fabric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple

from rackwright.catalog import rows, site

_INFINIBAND: Final = {"SDR": 10, "DDR": 20, "QDR": 40, "FDR10": 40, "FDR": 56, "EDR": 100, "HDR": 200, "NDR": 400, "XDR": 800}
"""Gb/s of four lanes by speed, as marketed (IBTA roadmap). A port runs at the lower speed of its two ends."""
_ETHERNET: Final = {"GbE": 1, "MbE": 1000}
"""Names of Ethernet rates by their unit, with the number of such units in a Gb/s."""


class Use(StrEnum):
    """The plane that a switch belongs to."""

    COMPUTE = "compute"
    MANAGEMENT = "management"
    SIMULATION = "simulation"
    """The fabric of virtual machines."""


class HcaPort(NamedTuple):
    """A port of a leaf that leads to HCAs."""

    links: int
    """HCAs of the port: several, if it is split."""
    width: str
    """Lanes of each of them, as in `2x`."""
    rate: str
    """By its name: NDR200, HDR, 100GbE."""
    gbps: int | float
    """Of each of them; a fraction for simulated switches only."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch model; every port has the same rate."""

    model: str
    product: str
    use: Use
    link_layer: str
    """InfiniBand or Ethernet."""
    ports: int
    rate_gbps: int | float
    speed: str
    """As printed by `ibnetdiscover -p` (NDR), or the rate of Ethernet (400GbE)."""
    width: str
    """Lanes of a link, as in `4x`."""
    splits: Mapping[str, int]
    """Rate of a part of a port -> the number of parts: NDR200 -> 2, 100GbE -> 4; empty if no source says that ports can be split."""
    rack_units: int | None
    """None without a source."""
    line_card: str | None
    """Director switch: chips of a line card by external ports of a chip, as 2x18; None for a switch of one chip."""
    subnet_manager: bool | None
    """Whether it can run a subnet manager; None without a source."""
    subnet_manager_nodes: int | None
    """Maximum number of nodes of the switch's own subnet manager; None without a source."""

    def port_at(self, rate: str | None, split: int | None = None) -> HcaPort | None:
        """Return a port for HCAs of a rate, or None if the ports cannot serve them. Without `split`, it is divided if its parts have it.

        >>> switches()["sn3700"].port_at("100GbE").links, switches()["sn3700"].port_at("100GbE", 1).links
        (2, 1)
        """
        lanes = int(self.width.removesuffix("x"))
        if rate in (None, self.speed):
            return HcaPort(1, self.width, self.speed, self.rate_gbps) if split in (None, 1) else None
        parts = self.splits.get(rate)
        if parts is not None and split in (None, parts):
            return HcaPort(parts, f"{lanes // parts}x", rate, int(self.rate_gbps // parts))
        slower = _gbps(rate, self.link_layer)
        if slower is None or slower >= self.rate_gbps or split not in (None, 1):
            return None
        return HcaPort(1, "4x" if self.link_layer == "InfiniBand" else self.width, rate, slower)


def _gbps(rate: str, link_layer: str) -> int | float | None:
    """Return the Gb/s of a whole port by the name of its rate.

    >>> _gbps("100GbE", "Ethernet"), _gbps("50MbE", "Ethernet"), _gbps("HDR", "Ethernet")
    (100, 0.05, None)
    """
    if link_layer == "InfiniBand":
        return _INFINIBAND.get(rate)
    for unit, units in _ETHERNET.items():
        number = rate.removesuffix(unit)
        if rate.endswith(unit) and number.isdecimal() and int(number):
            return int(number) if units == 1 else int(number) / units
    return None


def links_worth(switch_gbps: int | float, hca_gbps: int | float) -> int:
    """Return the links of HCAs that a link between switches carries. Rates below 1 Gb/s are no exact fractions, so they are rounded first.

    >>> links_worth(400, 200), links_worth(0.1, 0.01), links_worth(0.1, 0.03)
    (2, 10, 3)
    """
    return int(round(switch_gbps / hca_gbps, 6))


def rate_text(gbps: int | float) -> str:
    """Return a rate with its unit.

    >>> rate_text(400), rate_text(0.1)
    ('400 Gb/s', '100 Mb/s')
    """
    return f"{gbps:g} Gb/s" if gbps >= 1 else f"{gbps * 1000:g} Mb/s"


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
    return _switches(site.catalog())


@cache
def _switches(of_site: site.SiteCatalog) -> Mapping[str, Switch]:
    return {**{model: _site_switch(model, row) for model, row in of_site.rows.switches.items()}, **_product_switches()}


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
        splits={**row.splits, **({row.split_rate: 2} if row.split_rate else {})},
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
        rate_gbps=int(row["rate_gbps"]) if row["rate_gbps"].isdecimal() else float(row["rate_gbps"]),
        speed=row["speed"],
        width=row["width"],
        splits={rate: int(parts) for rate, _, parts in (word.partition("=") for word in row["splits"].split())},
        rack_units=int(row["rack_units"]) if row["rack_units"] else None,
        line_card=row["line_card"] or None,
        subnet_manager={"yes": True, "no": False}.get(row["subnet_manager"]),
        subnet_manager_nodes=int(row["subnet_manager_nodes"]) if row["subnet_manager_nodes"] else None,
    )
