"""Physical layout: racks of nodes, racks and heights of switches, and lengths of the cables between them."""

from __future__ import annotations

from collections import Counter
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from rackwright.catalog.switches import media
from rackwright.derive.fabric import future_racks
from rackwright.plan.fabric.schema import FabricPlan, FloorPlan
from rackwright.plan.fabric.wiring import NodePlacement, Switch, Wiring, cores_of, leaves_of, spines_of

if TYPE_CHECKING:
    from rackwright.plan.schema import Plan

_RISE_CM: Final = 250
"""From anywhere in a rack up to the tray above it: 42 units are 187 cm, and the tray hangs over them."""
_WITHIN_CM: Final = 200
"""Between any two places of one rack."""
_FINE_M: Final = 10
_COARSE_M: Final = 5
"""Lengths are rounded up to whole metres, above ten to fives: the stock lengths of cables."""


class Position(NamedTuple):
    """Location of a switch."""

    rack: str
    unit: int
    """Lowest rack unit, from 1."""


class Length(NamedTuple):
    """A cable to order."""

    metres: int
    medium: str | None
    """None where the catalogue has no cable of that length and speed."""


def positions(fabric: FabricPlan) -> dict[str, Position]:
    """Return the position of every switch of the layout, future ones included, so that none moves.

    Units are placed in order over the switch racks, spines and cores likewise.
    """
    floor = fabric.floor
    if floor is None or fabric.rack_units is None:
        return {}
    racks = floor.switch_racks
    units = range(fabric.units)
    standing: list[tuple[str, Switch]] = [
        (racks[unit * len(racks) // fabric.units], leaf) for unit in units for leaf in leaves_of(fabric, unit)
    ]
    pods = range(fabric.pods.number if fabric.pods else 1)
    standing += [(racks[spine.number * len(racks) // fabric.all_spines], spine) for pod in pods for spine in spines_of(fabric, pod)]
    standing += [(racks[core.number * len(racks) // fabric.cores], core) for core in cores_of(fabric)]
    filled: Counter[str] = Counter()
    found = {}
    for rack, switch in standing:
        found[switch.name] = Position(rack, filled[rack] + 1)
        filled[rack] += fabric.rack_units
    return found


def node_racks(plan: Plan, placements: tuple[NodePlacement, ...]) -> dict[str, str]:
    """Return the rack of every node that has one; future nodes fill the free racks of the floor as densely as the fullest today."""
    found = {node.name: node.rack for node in plan.nodes if node.rack}
    coming = [placement.node for placement in placements if placement.node not in plan.by_name]
    floor = plan.fabric.floor if plan.fabric else None
    if floor is None or not coming:
        return found
    here = {placement.node for placement in placements}
    free = future_racks(floor.places, [*found.values(), *floor.switch_racks], (rack for node, rack in found.items() if node in here))
    return found | dict(zip(coming, free, strict=False))


class UnplacedDevices(NamedTuple):
    """Devices without a known rack: their cables have no length, and no management switch has a port for them."""

    nodes: tuple[str, ...]
    switches: tuple[str, ...]


def without_rack(plan: Plan, laid: Wiring) -> UnplacedDevices:
    """Return the devices of a wiring without a rack; with a management plane, all nodes of the plan must have one."""
    fabric = plan.fabric
    assert fabric is not None
    nodes = [placement.node for placement in laid.placements] + ([fabric.subnet_manager] if fabric.subnet_manager and fabric.spare else [])
    nodes += [node.name for node in plan.nodes] if fabric.management else []
    racks, standing = node_racks(plan, laid.placements), positions(fabric)
    return UnplacedDevices(
        tuple(node for node in dict.fromkeys(nodes) if node not in racks),
        tuple(switch.name for switch in laid.switches if switch.name not in standing),
    )


def length(floor: FloorPlan | None, speed: str, one: str | None, other: str | None) -> Length | None:
    """Return the cable between two racks; None if the position of one is unknown."""
    if floor is None or one not in floor.places or other not in floor.places:
        return None
    (row, number), (other_row, other_number) = floor.places[one], floor.places[other]
    along = abs(number - other_number) * floor.rack_width_cm + abs(row - other_row) * floor.row_pitch_cm
    metres = _rounded((_WITHIN_CM if one == other else 2 * _RISE_CM + along) / 100)
    return Length(metres, next((medium.name for medium in media(speed) if medium.reach_m >= metres), None))


def _rounded(metres: float) -> int:
    whole = ceil(metres)
    return whole if whole <= _FINE_M else ceil(whole / _COARSE_M) * _COARSE_M
