"""Summary of a fabric: counts, bisection, growth steps and the cost of space for growth; as numbers and as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rackwright.catalog.switches import rate_text, switches
from rackwright.plan.fabric.growth import at_size, bisection_gbps, fabric_of, growth_headroom, steps
from rackwright.plan.fabric.labels import nccl, node_labels
from rackwright.plan.fabric.management import management
from rackwright.plan.fabric.physical import positions, without_rack
from rackwright.plan.fabric.wiring import Level, Wiring, occupied_units, splitter_of, wiring

if TYPE_CHECKING:
    from rackwright.plan.fabric.schema import FabricPlan
    from rackwright.plan.schema import Plan

_NUMBERS: Final = {2: "two", 4: "four", 8: "eight"}
Table = tuple[Sequence[str], Sequence[Sequence[object]]]


def counts(plan: Plan, laid: Wiring) -> dict[str, Any]:
    """Return the number of devices and cables of a wiring."""
    fabric = fabric_of(plan)
    leaves, cables = len(laid.of(Level.LEAF)), len(laid.cables)
    up = sum("/" not in cable.device for cable in laid.cables)
    beside = management(plan, laid)
    splitters = {splitter for cable in laid.cables if (splitter := splitter_of(fabric, cable))}
    return {
        "nodes": len(laid.placements),
        "scalable_units": len(occupied_units(fabric, laid.placements)),
        "leaves": leaves,
        "spines": len(laid.of(Level.SPINE)),
        "cores": len(laid.of(Level.CORE)),
        "cables_to_nodes": cables - up,
        "splitter_cables": len(splitters),
        "cables_between_switches": up,
        "bisection_gbps": bisection_gbps(fabric, laid),
        "management_switches": len(beside.switches),
        "management_cables": len(beside.cables),
    }


def summary(plan: Plan, nodes: int | None = None) -> dict[str, Any]:
    """Return the summary as JSON-ready data."""
    fabric = fabric_of(plan)
    space = growth_headroom(plan)
    return {
        "fabric": fabric.model_dump(mode="json"),
        "now": counts(plan, wiring(plan)),
        "with": counts(plan, at_size(plan, nodes)) if nodes is not None else None,
        "full": counts(plan, at_size(plan, fabric.nodes)),
        "downlinks_per_leaf": fabric.downlinks,
        "uplinks_per_leaf": fabric.uplinks,
        "room": asdict(space) if space else None,
        "growth": [
            {"nodes": step.nodes, "switches": step.switches, "added": len(step.added), "moved": len(step.moved)} for step in steps(plan)
        ],
        "without_rack": {what: len(names) for what, names in without_rack(plan, at_size(plan, fabric.nodes))._asdict().items()},
        "positions": {name: position._asdict() for name, position in positions(fabric).items()},
        "topology_conf": _topology_conf(plan),
        "node_labels": node_labels(plan),
        "nccl": nccl(fabric),
    }


def _topology_conf(plan: Plan) -> list[str] | None:
    """Return the lines of topology.conf; None if Slurm does not run or the topology offers no choice."""
    topology = plan.scheduler.topology if plan.scheduler.kind == "slurm" else None
    return list(topology.lines) if topology else None


def sections(plan: Plan, nodes: int | None = None) -> Iterator[str | Table]:
    """Yield the summary for the terminal: sentences, and tables as heads and rows."""
    fabric = fabric_of(plan)
    yield headline(plan)
    yield _table(plan, fabric, nodes)
    yield "\n".join(_notes(plan, fabric))
    yield (
        ["growth", "switches", "cables", "added", "moved"],
        [[f"{step.nodes} nodes", step.switches, step.cables, len(step.added), len(step.moved)] for step in steps(plan)],
    )
    if fabric.dpus:
        heads = ["cards of", "model", "per node", "slot", "set by hand to"]
        yield heads, [[dpus.group, dpus.model, dpus.count, dpus.slot, dpus.mode.value] for dpus in fabric.dpus]


def headline(plan: Plan) -> str:
    """Return a one-line description."""
    fabric = fabric_of(plan)
    switch = switches()[fabric.switch]
    kind = f"InfiniBand {fabric.rate}" if fabric.link_layer == "InfiniBand" else f"RoCE over {fabric.rate}"
    first = f"fabric of {plan.stack}: {kind}, {fabric.topology}, {fabric.rails} rails"
    split = f", those of HCAs split in {_NUMBERS.get(fabric.split, fabric.split)}" if fabric.split > 1 else ""
    ports = f"{fabric.ports} ports of {rate_text(switch.rate_gbps)}{split}"
    return f"{first}, {switch.product} ({ports}){'; simulated' if fabric.simulated else ''}"


def _table(plan: Plan, fabric: FabricPlan, nodes: int | None) -> Table:
    columns = {"now": counts(plan, wiring(plan))}
    if nodes is not None:
        columns[f"with {nodes}"] = counts(plan, at_size(plan, nodes))
    columns["planned for"] = counts(plan, at_size(plan, fabric.nodes))
    names = [name for name in columns["now"] if fabric.management or not name.startswith("management")]
    names = [name for name in names if fabric.split > 1 or name != "splitter_cables"]
    names = [name for name in names if fabric.pods or name != "cores"]
    return ["", *columns], [[_words(name), *(_figure(name, column[name]) for column in columns.values())] for name in names]


def _words(name: str) -> str:
    return name.removesuffix("_gbps").replace("_", " ")


def _figure(name: str, value: int | float | None) -> str | None:
    if value is None or name != "bisection_gbps":
        return None if value is None else str(value)
    return f"{value / 1000:g} Tb/s" if value >= 1 else rate_text(value)


def _notes(plan: Plan, fabric: FabricPlan) -> Iterator[str]:
    down, up = fabric.downlinks, fabric.uplinks
    if fabric.spines:
        worth = fabric.upward
        ratio = "non-blocking" if down <= worth else f"oversubscription {down / worth:.3g}:1"
        whose = "spines of its pod" if fabric.pods else "spines"
        yield f"each leaf: {down} links down, {up} up ({fabric.links} to each of {fabric.spines} {whose}): {ratio}"
    else:
        yield f"one leaf with {down} links, no spine"
    if fabric.pods:
        pods = fabric.pods
        yield f"three levels: {pods.number} pods of {pods.units} scalable units; each spine has {pods.uplinks} links to {pods.cores} cores"
    if fabric.link_layer == "InfiniBand":
        yield f"subnet manager: {fabric.subnet_manager or 'the switches'}"
        hcas = fabric.nodes * fabric.rails
        if fabric.subnet_manager is None and fabric.manageable is not None and hcas > fabric.manageable:
            yield f"the switches' subnet manager serves {fabric.manageable} nodes, the full fabric has {hcas} HCAs: use UFM or a node then"
    space = growth_headroom(plan)
    if space is not None and space.switches > space.alone:
        yield (
            f"planned for {fabric.nodes} nodes: {space.switches} switches now; {space.alone} suffice for the current nodes, "
            f"but need a new cabling plan later, which moves {space.moved} cables"
        )
    yield from _gaps(plan, fabric)


def _gaps(plan: Plan, fabric: FabricPlan) -> Iterator[str]:
    """Yield what the cable list lacks because racks are unknown."""
    nodes, switches = map(len, without_rack(plan, at_size(plan, fabric.nodes)))
    unlisted = "their management ports are not listed" if fabric.management else ""
    if fabric.floor is None:
        yield "no `floor_plan` is declared: cables have no lengths"
    if nodes and (fabric.floor or fabric.management):
        words = "1 node of the full fabric has no rack: its" if nodes == 1 else f"{nodes} nodes of the full fabric have no rack: their"
        yield "; ".join(filter(None, (f"{words} cables have no length", unlisted)))
    if switches and unlisted:
        yield f"{switches} switches of the full fabric have no rack without `floor_plan`: {unlisted}"
