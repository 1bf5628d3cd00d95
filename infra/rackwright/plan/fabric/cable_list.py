"""The cables to order and to plug in: one row for each cable of both planes."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from rackwright.plan.fabric.growth import at_size
from rackwright.plan.fabric.management import ManagementWiring, management
from rackwright.plan.fabric.physical import length, node_racks, positions
from rackwright.plan.fabric.wiring import Cable, Wiring, splitter_of, wiring

if TYPE_CHECKING:
    from rackwright.plan.schema import Plan


class Plane(StrEnum):
    """Network plane of a cable."""

    COMPUTE = "compute"
    MANAGEMENT = "management"


class State(StrEnum):
    """Whether a cable belongs to existing nodes or to future ones."""

    PRESENT = "present"
    ADDED = "added"


@dataclass(frozen=True)
class Row:
    """A cable with the locations of its ends."""

    plane: Plane
    state: State
    from_device: str
    from_port: int
    from_rack: str
    to_device: str
    to_port: int
    to_rack: str
    to_unit: str
    """Lowest rack unit of the switch."""
    rail: str
    speed: str
    length_m: str
    """Empty if the rack of an end is unknown."""
    medium: str
    splitter: str
    """Port of the switch, counted on its panel, whose splitter cable the row is a tail of; empty without one."""


def rows(plan: Plan, nodes: int | None = None) -> list[Row]:
    """Return every cable for a number of nodes; None is the current number."""
    laid = at_size(plan, nodes)
    fabric = plan.fabric
    assert fabric is not None
    places = _Places(plan, laid)
    today, apart = _today(plan)
    beside = management(plan, laid)
    rates = {True: fabric.rate, False: fabric.speed}
    compute = [places.row(Plane.COMPUTE, cable, rates["/" in cable.device], cable in today) for cable in laid.cables]
    speed = fabric.management.speed if fabric.management else ""
    return _equal_tails(compute) + [places.row(Plane.MANAGEMENT, cable, speed, cable in apart) for cable in beside.cables]


def _equal_tails(found: list[Row]) -> list[Row]:
    """Return the rows with both tails of a splitter cable as long as the longer one, as they are sold."""
    longest: dict[str, Row] = {}
    for row in found:
        other = longest.get(row.splitter, row)
        longest[row.splitter] = max(row, other, key=lambda tail: int(tail.length_m or 0))
    return [
        replace(row, length_m=longest[row.splitter].length_m, medium=longest[row.splitter].medium) if row.splitter else row for row in found
    ]


def _today(plan: Plan) -> tuple[frozenset[Cable], frozenset[Cable]]:
    laid = wiring(plan)
    return frozenset(laid.cables), frozenset(management(plan, laid).cables)


class _Places:
    """Racks and heights of all devices."""

    def __init__(self, plan: Plan, laid: Wiring) -> None:
        assert plan.fabric is not None
        self._fabric = plan.fabric
        self._floor = plan.fabric.floor
        self._switches = positions(plan.fabric)
        beside: ManagementWiring = management(plan, laid)
        self._racks = node_racks(plan, laid.placements)
        self._racks |= {name: position.rack for name, position in self._switches.items()} | dict(beside.switches)

    def row(self, plane: Plane, cable: Cable, speed: str, present: bool) -> Row:
        """Return the cable with the locations of its ends."""
        one, other = self._racks.get(cable.device.split("/")[0]), self._racks.get(cable.switch)
        order = length(self._floor, speed, one, other)
        position = self._switches.get(cable.switch)
        return Row(
            plane=plane,
            state=State.PRESENT if present else State.ADDED,
            from_device=cable.device,
            from_port=cable.port,
            from_rack=one or "",
            to_device=cable.switch,
            to_port=cable.switch_port,
            to_rack=other or "",
            to_unit=str(position.unit) if position else "",
            rail="" if cable.rail is None else str(cable.rail),
            speed=speed,
            length_m=str(order.metres) if order else "",
            medium=order.medium or "" if order else "",
            splitter=splitter_of(self._fabric, cable) if plane is Plane.COMPUTE else "",
        )


def as_csv(found: list[Row]) -> str:
    """Return the rows as CSV with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in found)
    return text.getvalue()
