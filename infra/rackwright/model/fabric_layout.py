"""The measures of a two-level fabric: how many nodes share leaves, how many spines there are, how many cables go between the two.

They follow from what the fabric is laid out for, never from how many nodes there are today: that is what keeps growth from moving
a cable. A fabric that blocks nothing must take equal numbers of cables from each leaf to a spine (traffic between any two leaves finds
only the lesser of both), so leaves that come later can only meet spines that were there from the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

from rackwright.model.fabric import FabricTopology

RACK_UNITS: Final = 42


@dataclass(frozen=True, slots=True)
class Layout:
    """Measures of a fabric."""

    per_unit: int
    units: int
    spines: int
    links: int
    """Cables between each leaf and each spine."""


def lay_out(
    *,
    ports: int,
    rails: int,
    nodes: int,
    oversubscription: int = 1,
    topology: FabricTopology = FabricTopology.RAIL_OPTIMISED,
    spare: int = 0,
) -> Layout | None:
    """The measures with the fewest spines; None where two levels of such switches cannot carry so many nodes.

    `spare`: ports of each leaf kept for others than the nodes' HCAs.

    >>> lay_out(ports=64, rails=8, nodes=256)
    Layout(per_unit=32, units=8, spines=32, links=1)
    """
    widest = _widest(ports - spare, oversubscription)
    on_rails = topology is FabricTopology.RAIL_OPTIMISED
    most = widest if on_rails else widest // rails
    if most == 0:
        return None
    per_unit = min(most, nodes)
    units = ceil(nodes / per_unit)
    leaves = units * rails if on_rails else units
    down = per_unit if on_rails else per_unit * rails
    spines = _spines(leaves, down, ceil(down / oversubscription), ports, ports - spare)
    return None if spines is None else Layout(per_unit, units, *spines)


def _widest(ports: int, oversubscription: int) -> int:
    """The most links down of a leaf that leave ports for the links up they need."""
    return max((down for down in range(1, ports) if down + ceil(down / oversubscription) <= ports), default=0)


def _spines(leaves: int, down: int, up: int, ports: int, leaf_ports: int) -> tuple[int, int] | None:
    """(spines, cables from each leaf to each of them), with the fewest spines; two at least, so that losing one cuts nobody off."""
    if leaves == 1:
        return 0, 0
    for spines in range(2, max(up, 2) + 1):
        links = ceil(up / spines)
        if leaves * links <= ports and down + spines * links <= leaf_ports:
            return spines, links
    return None
