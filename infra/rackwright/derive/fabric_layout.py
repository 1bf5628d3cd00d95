"""Dimensions of a fabric: nodes per leaf, number of spines, cables between each leaf and each spine; pods and cores above two levels.

The dimensions follow from the planned number of nodes, never from the present one, so that growth moves no cable. A non-blocking
fabric needs equal numbers of cables from each leaf to a spine (traffic between two leaves is limited by the smaller number), so
leaves that are added later can only connect to spines that existed from the start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from rackwright.model.fabric.switches import FabricTopology

RACK_UNITS: Final = 42
"""Units of a rack. Chosen: the height that most vendors sell; EIA-310 defines the unit (44.45 mm), not the number."""


@dataclass(frozen=True, slots=True)
class Pods:
    """Dimensions of the third level: pods of leaves and spines below cores."""

    number: int
    units: int
    """Scalable units of a pod."""
    cores: int
    """Cores above the spines of one number, one such spine in each pod."""
    uplinks: int
    """Cables from a spine to its cores."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Dimensions of a fabric."""

    per_unit: int
    units: int
    spines: int
    """Of the fabric, or of each pod."""
    links: int
    """Cables between each leaf and each spine."""
    pods: Pods | None = None
    """None if two levels suffice."""


def compute_layout(
    *,
    ports: int,
    rails: int,
    nodes: int,
    oversubscription: float = 1,
    topology: FabricTopology = FabricTopology.RAIL_OPTIMISED,
    spare: int = 0,
    split: int = 1,
    worth: int | None = None,
) -> Layout | None:
    """Return the dimensions with the fewest spines, or None if three levels of these switches cannot connect all nodes.

    `spare`: ports of each leaf that are reserved for other devices than the nodes' HCAs. `split`: HCAs of a leaf's port; ports between
    switches are not split. `worth`: HCAs whose traffic such a port carries; by default as many as a split port has.

    >>> compute_layout(ports=64, rails=8, nodes=256)
    Layout(per_unit=32, units=8, spines=32, links=1, pods=None)
    """
    carried = (worth or split) * oversubscription
    widest = _widest(ports - spare, carried, split)
    on_rails = topology is FabricTopology.RAIL_OPTIMISED
    most = widest if on_rails else widest // rails
    if most == 0:
        return None
    per_unit = min(most, nodes)
    units = ceil(nodes / per_unit)
    per_leaves = rails if on_rails else 1
    down = per_unit if on_rails else per_unit * rails
    taken, up = ceil(down / split), ceil(down / carried)
    spines = _spines(units * per_leaves, taken, up, ports, ports - spare)
    if spines is not None:
        return Layout(per_unit, units, *spines)
    return _in_pods(Layout(per_unit, units, max(up, 2), 1), per_leaves, ports, free=ports - spare - taken)


def _widest(ports: int, carried: float, split: int) -> int:
    """Return the maximum number of HCAs of a leaf that leaves enough ports for the uplinks."""
    fitting = (down for down in range(1, ports * split) if ceil(down / split) + ceil(down / carried) <= ports)
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


def _in_pods(flat: Layout, per_leaves: int, ports: int, free: int) -> Layout | None:
    """Return the dimensions with a third level, or None. `free`: ports of a leaf for uplinks.

    Half of a spine's ports lead down, so that the levels above the leaves block nothing. Each leaf has one cable to each spine of its
    pod. A core connects the spines of one number: the same number of cables to each pod, and no pod depends on another one's spines.
    """
    units = min(ports // 2 // per_leaves, flat.units)
    if units == 0 or flat.spines > free:
        return None
    number = ceil(flat.units / units)
    uplinks = units * per_leaves
    together = min(uplinks, ports // number)
    if together == 0:
        return None
    return replace(flat, pods=Pods(number, units, ceil(uplinks / together), uplinks))
