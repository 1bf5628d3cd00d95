"""Where things stand: racks of nodes, racks and heights of switches, and how long cables between them are."""

from __future__ import annotations

from collections import Counter
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from rackwright.catalog.switches import media
from rackwright.derive.fabric import future_racks
from rackwright.plan.fabric.schema import FabricPlan, FloorPlan
from rackwright.plan.fabric.wiring import NodePlacement, Switch, Wiring, leaves_of, spines_of

if TYPE_CHECKING:
    from rackwright.plan.schema import Plan

_RISE_CM: Final = 250
"""From anywhere in a rack up to the tray above it: 42 units are 187 cm, and the tray hangs over them."""
_WITHIN_CM: Final = 200
"""Between any two places of one rack."""
_FINE_M: Final = 10
_COARSE_M: Final = 5
"""Lengths are rounded up to whole metres, above ten to fives: cables are stocked so."""


class Position(NamedTuple):
    """Where a switch stands."""

    rack: str
    unit: int
    """The lowest unit it takes, from 1."""


class Length(NamedTuple):
    """A cable to order."""

    metres: int
    medium: str | None
    """None where the catalogue has nothing that reaches so far at that speed."""


def positions(fabric: FabricPlan) -> dict[str, Position]:
    """All switches it is laid out for, also those to come, so that none moves: units in order over the switch racks, spines likewise."""
    floor = fabric.floor
    if floor is None or fabric.rack_units is None:
        return {}
    racks = floor.switch_racks
    units = range(fabric.units)
    standing: list[tuple[str, Switch]] = [
        (racks[unit * len(racks) // fabric.units], leaf) for unit in units for leaf in leaves_of(fabric, unit)
    ]
    standing += [(racks[spine.number * len(racks) // fabric.spines], spine) for spine in spines_of(fabric)]
    filled: Counter[str] = Counter()
    found = {}
    for rack, switch in standing:
        found[switch.name] = Position(rack, filled[rack] + 1)
        filled[rack] += fabric.rack_units
    return found


def node_racks(plan: Plan, seats: tuple[NodePlacement, ...]) -> dict[str, str]:
    """The rack of every node that has one; nodes to come fill the free racks of the floor as full as the fullest today."""
    found = {node.name: node.rack for node in plan.nodes if node.rack}
    coming = [seat.node for seat in seats if seat.node not in plan.by_name]
    floor = plan.fabric.floor if plan.fabric else None
    if floor is None or not coming:
        return found
    here = {seat.node for seat in seats}
    free = future_racks(floor.places, [*found.values(), *floor.switch_racks], (rack for node, rack in found.items() if node in here))
    return found | dict(zip(coming, free, strict=False))


class Unplaced(NamedTuple):
    """Return devices without a known rack: their cables have no length, and no management switch has a port for them."""

    nodes: tuple[str, ...]
    switches: tuple[str, ...]


def without_rack(plan: Plan, laid: Wiring) -> Unplaced:
    """What a wiring has without a rack; all of the plan's nodes are asked for one where they are on the management plane."""
    fabric = plan.fabric
    assert fabric is not None
    nodes = [seat.node for seat in laid.seats] + ([fabric.subnet_manager] if fabric.subnet_manager and fabric.spare else [])
    nodes += [node.name for node in plan.nodes] if fabric.management else []
    racks, standing = node_racks(plan, laid.seats), positions(fabric)
    return Unplaced(
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
