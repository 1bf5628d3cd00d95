"""A fabric with more nodes than there are today: who would come, which cables, and what room for them costs from the start."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackwright.derive.fabric_layout import compute_layout
from rackwright.errors import InputError
from rackwright.plan.fabric.schema import FabricPlan
from rackwright.plan.fabric.wiring import Cable, NodePlacement, Wiring, placements, wired, wiring

if TYPE_CHECKING:
    from rackwright.plan.schema import Plan


@dataclass(frozen=True)
class Step:
    """The fabric at some number of nodes, against what it was before."""

    nodes: int
    switches: int
    cables: int
    added: tuple[Cable, ...]
    moved: tuple[Cable, ...]
    """Cables that were there and are not where they were."""


@dataclass(frozen=True)
class GrowthHeadroom:
    """What laying out for more nodes than there are costs at the start, and what not doing so costs later."""

    switches: int
    """Today, laid out as declared."""
    alone: int
    """Today, laid out for today's nodes alone."""
    moved: int
    """Cables that would move if the smaller fabric were planned again for all nodes."""


def at_size(plan: Plan, nodes: int | None) -> Wiring:
    """The wiring with so many nodes; today's where that is None. InputError where there are more already, or there is no room."""
    fabric = fabric_of(plan)
    today = placements(plan)
    if nodes is None:
        return wiring(plan)
    if nodes < len(today):
        raise InputError(f"{nodes} nodes: the fabric already has {len(today)}", hint="use a larger number")
    if nodes > fabric.nodes:
        raise InputError(
            f"{nodes} nodes: the fabric is planned for {fabric.nodes}",
            path="fabric.max_nodes",
            hint="increase it, which changes the cabling plan and moves cables",
        )
    return wired(fabric, (*today, *_coming(plan, fabric, nodes - len(today))))


def fabric_of(plan: Plan) -> FabricPlan:
    """The plan's fabric; InputError where it has none."""
    if plan.fabric is None:
        raise InputError(f"stack {plan.stack} has no fabric", path="fabric", hint="declare `fabric: {}`; see docs/fabric.md")
    return plan.fabric


def _coming(plan: Plan, fabric: FabricPlan, count: int) -> list[NodePlacement]:
    """The next nodes: of the last group first, whose places end with the fabric's own, then of those before it."""
    taken = {seat.place for seat in placements(plan)}
    found: list[NodePlacement] = []
    end = fabric.nodes
    for group, first in sorted(fabric.places.items(), key=lambda item: -item[1]):
        free = [place for place in range(first, min(end, fabric.nodes)) if place not in taken]
        found += [NodePlacement(f"{group}{place - first}", place) for place in free[: count - len(found)]]
        end = first
    return found


def steps(plan: Plan) -> tuple[Step, ...]:
    """Today, and doubled until it is full: what comes each time."""
    fabric = fabric_of(plan)
    size, sizes = max(1, len(placements(plan))), []
    while size < fabric.nodes:
        sizes.append(size)
        size *= 2
    found: list[Step] = []
    before = frozenset(wiring(plan).cables)
    for nodes in (*sizes, fabric.nodes):
        laid = at_size(plan, nodes) if nodes >= len(placements(plan)) else wiring(plan)
        now = frozenset(laid.cables)
        found.append(Step(nodes, len(laid.switches), len(now), tuple(sorted(now - before)), tuple(sorted(before - now))))
        before = now
    return tuple(found)


def room(plan: Plan) -> GrowthHeadroom | None:
    """What room for growth costs; None where the fabric is full, or laid out for no more than there are."""
    fabric = fabric_of(plan)
    today = placements(plan)
    last = max((seat.place for seat in today), default=0) + 1
    if last >= fabric.nodes:
        return None
    alone = _alone(fabric, last)
    small, large = wired(alone, today), wired(fabric, today)
    moved = frozenset(small.cables) - frozenset(large.cables)
    return GrowthHeadroom(len(large.switches), len(small.switches), len(moved))


def _alone(fabric: FabricPlan, nodes: int) -> FabricPlan:
    """The same fabric laid out for fewer nodes."""
    apart = fabric.spare
    measures = compute_layout(
        ports=fabric.ports,
        rails=fabric.rails,
        nodes=nodes,
        oversubscription=fabric.oversubscription,
        topology=fabric.topology,
        spare=apart,
        split=fabric.split,
    )
    assert measures is not None, "what carries more carries fewer"
    return fabric.model_copy(
        update={"nodes": nodes, "per_unit": measures.per_unit, "units": measures.units, "spines": measures.spines, "links": measures.links}
    )


def bisection_gbps(fabric: FabricPlan, laid: Wiring) -> int | None:
    """What passes at once between the weakest halves of its scalable units; None where there is only one, whose leaves block nothing.

    A unit sends what its HCAs have and what its leaves' cables up carry, whichever is less, and spreads it over all spines.
    """
    nodes = Counter(seat.place // fabric.per_unit for seat in laid.seats)
    if len(nodes) < 2:
        return None
    sends = sorted(min(count * fabric.rails, fabric.leaves_per_unit * fabric.upward) for count in nodes.values())
    return sum(sends[: len(sends) // 2]) * fabric.rate_gbps
