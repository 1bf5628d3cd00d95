"""A fabric with more nodes than today: the next nodes, their cables, and the cost of reserving space for them."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rackwright.catalog.switches import links_worth
from rackwright.derive.fabric_layout import compute_layout
from rackwright.errors import InputError
from rackwright.plan.fabric.schema import FabricPlan, PodsPlan
from rackwright.plan.fabric.wiring import Cable, NodePlacement, Wiring, placements, wire_placements, wiring

if TYPE_CHECKING:
    from rackwright.plan.schema import Plan


@dataclass(frozen=True)
class Step:
    """The fabric at a number of nodes, compared with the step before."""

    nodes: int
    switches: int
    cables: int
    added: tuple[Cable, ...]
    moved: tuple[Cable, ...]
    """Cables of the step before that no longer exist."""


@dataclass(frozen=True)
class GrowthHeadroom:
    """Cost of reserving space for growth at the start, and cost of not reserving it, later."""

    switches: int
    """Today, laid out as declared."""
    alone: int
    """Today, laid out for today's nodes alone."""
    moved: int
    """Cables that would move if the smaller fabric were planned again for all nodes."""


def at_size(plan: Plan, nodes: int | None) -> Wiring:
    """Return the wiring for a number of nodes; None is the current number. Raise InputError for fewer nodes than exist, or too many."""
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
    return wire_placements(fabric, (*today, *_coming(plan, fabric, nodes - len(today))))


def fabric_of(plan: Plan) -> FabricPlan:
    """Return the plan's fabric. Raise InputError if it has none."""
    if plan.fabric is None:
        raise InputError(f"stack {plan.stack} has no fabric", path="fabric", hint="declare `fabric: {}`; see docs/fabric.md")
    return plan.fabric


def _coming(plan: Plan, fabric: FabricPlan, count: int) -> list[NodePlacement]:
    """Return the next nodes: of the last group first, whose places end with the fabric's own, then of those before it."""
    taken = {placement.place for placement in placements(plan)}
    found: list[NodePlacement] = []
    end = fabric.nodes
    for group, first in sorted(fabric.places.items(), key=lambda item: -item[1]):
        free = [place for place in range(first, min(end, fabric.nodes)) if place not in taken]
        found += [NodePlacement(f"{group}{place - first}", place) for place in free[: count - len(found)]]
        end = first
    return found


def steps(plan: Plan) -> tuple[Step, ...]:
    """Return the growth steps: the current size, then doubled until the fabric is full, with the additions of each step."""
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


def growth_headroom(plan: Plan) -> GrowthHeadroom | None:
    """Return the cost of space for growth; None where the fabric is full, or laid out for the current size."""
    fabric = fabric_of(plan)
    today = placements(plan)
    last = max((placement.place for placement in today), default=0) + 1
    if last >= fabric.nodes:
        return None
    alone = _alone(fabric, last)
    small, large = wire_placements(alone, today), wire_placements(fabric, today)
    moved = frozenset(small.cables) - frozenset(large.cables)
    return GrowthHeadroom(len(large.switches), len(small.switches), len(moved))


def _alone(fabric: FabricPlan, nodes: int) -> FabricPlan:
    """Return the same fabric laid out for fewer nodes."""
    apart = fabric.spare
    measures = compute_layout(
        ports=fabric.ports,
        rails=fabric.rails,
        nodes=nodes,
        oversubscription=fabric.oversubscription,
        topology=fabric.topology,
        spare=apart,
        split=fabric.split,
        worth=links_worth(fabric.switch_gbps, fabric.rate_gbps) if fabric.switch_gbps else None,
    )
    assert measures is not None, "what carries more carries fewer"
    pods = PodsPlan(**asdict(measures.pods)) if measures.pods else None
    return fabric.model_copy(
        update={
            "nodes": nodes,
            "per_unit": measures.per_unit,
            "units": measures.units,
            "spines": measures.spines,
            "links": measures.links,
            "pods": pods,
        }
    )


def bisection_gbps(fabric: FabricPlan, laid: Wiring) -> int | float | None:
    """Return the bandwidth between the weakest halves of its scalable units; None for a single unit, whose leaves block nothing.

    A unit sends at the bandwidth of its HCAs or of its leaves' uplinks, whichever is less, and spreads it over all spines.
    """
    nodes = Counter(placement.place // fabric.per_unit for placement in laid.placements)
    if len(nodes) < 2:
        return None
    sends = sorted(min(count * fabric.rails, fabric.leaves_per_unit * fabric.upward) for count in nodes.values())
    return sum(sends[: len(sends) // 2]) * fabric.rate_gbps
