"""Dimensions of a two-level fabric: nodes per leaf, number of spines, cables between each leaf and each spine.

The dimensions follow from the planned number of nodes, never from the present one, so that growth moves no cable. A non-blocking
fabric needs equal numbers of cables from each leaf to a spine (traffic between two leaves is limited by the smaller number), so
leaves that are added later can only connect to spines that existed from the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

from rackwright.model.fabric.switches import FabricTopology

RACK_UNITS: Final = 42
"""Units of a rack. Chosen: the height that most vendors sell; EIA-310 defines the unit (44.45 mm), not the number."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Dimensions of a fabric."""

    per_unit: int
    units: int
    spines: int
    links: int
    """Cables between each leaf and each spine."""


def compute_layout(
    *,
    ports: int,
    rails: int,
    nodes: int,
    oversubscription: int = 1,
    topology: FabricTopology = FabricTopology.RAIL_OPTIMISED,
    spare: int = 0,
    split: int = 1,
) -> Layout | None:
    """Return the dimensions with the fewest spines, or None if two levels of these switches cannot connect all nodes.

    `spare`: ports of each leaf that are reserved for other devices than the nodes' HCAs. `split`: HCAs of a leaf's port; ports between
    switches are not split, and each carries as much as `split` HCAs.

    >>> compute_layout(ports=64, rails=8, nodes=256)
    Layout(per_unit=32, units=8, spines=32, links=1)
    """
    widest = _widest(ports - spare, oversubscription, split)
    on_rails = topology is FabricTopology.RAIL_OPTIMISED
    most = widest if on_rails else widest // rails
    if most == 0:
        return None
    per_unit = min(most, nodes)
    units = ceil(nodes / per_unit)
    leaves = units * rails if on_rails else units
    down = per_unit if on_rails else per_unit * rails
    taken = ceil(down / split)
    spines = _spines(leaves, taken, ceil(down / (split * oversubscription)), ports, ports - spare)
    return None if spines is None else Layout(per_unit, units, *spines)


def _widest(ports: int, oversubscription: int, split: int) -> int:
    """Return the maximum number of HCAs of a leaf that leaves enough ports for the uplinks."""
    fitting = (down for down in range(1, ports * split) if ceil(down / split) + ceil(down / (split * oversubscription)) <= ports)
    return max(fitting, default=0)


def _spines(leaves: int, down: int, up: int, ports: int, leaf_ports: int) -> tuple[int, int] | None:
    """Return (spines, cables from each leaf to each spine) with the fewest spines, or None. `down` and `up`: ports of a leaf.

    At least two spines, so that the failure of one disconnects no leaf; no spine for a single leaf.
    """
    if leaves == 1:
        return 0, 0
    for spines in range(2, max(up, 2) + 1):
        links = ceil(up / spines)
        if leaves * links <= ports and down + spines * links <= leaf_ports:
            return spines, links
    return None
