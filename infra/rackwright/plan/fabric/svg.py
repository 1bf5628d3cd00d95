"""The fabric as a drawing (SVG): spines over leaves over racks, coloured by rail; the management plane below, apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from rackwright.plan.fabric.growth import at_size
from rackwright.plan.fabric.management import management
from rackwright.plan.fabric.physical import Position, node_racks, positions
from rackwright.plan.fabric.slurm import unit_name
from rackwright.plan.fabric.summary import counts, headline
from rackwright.plan.fabric.wiring import Level, Switch, Wiring

if TYPE_CHECKING:
    from rackwright.plan.fabric.schema import FabricPlan
    from rackwright.plan.schema import Plan

_WIDTH: Final = 1200
_MARGIN: Final = 20
"""Width of the drawing and distance from its edges, in SVG units. Chosen by eye, as are the sizes below."""
_SPINES_Y, _LEAVES_Y, _RACKS_Y = 130, 330, 530
_SWITCH: Final = 24
"""Height of a switch."""
_NODE: Final = 15
"""Height of a node in its rack."""
_ABREAST: Final = 34
"""Maximum number of racks side by side: each is then as wide as its own name."""
_BETWEEN: Final = 30
"""From one row of racks to the next."""
_PLANE: Final = 40
"""From a rack down to its switch of the management plane."""
_READABLE: Final = 76
"""Width from which a rack shows its nodes' names."""
_RAILS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6a3d9a", "#7a7a00")
"""Colours that people with any kind of colour blindness can distinguish (after Okabe and Ito), then repeated."""
_LIGHT: Final = frozenset({"#cc79a7", "#56b4e9", "#e69f00"})
"""Light colours on which white letters are hard to read."""
_STYLE: Final = """
    .page { fill: #ffffff } .title { font-size: 17px; font-weight: 600; fill: #16222e } .text { font-size: 14px; fill: #44515e }
    .name { font-size: 11px; fill: #16222e } .on { font-size: 11px; fill: #ffffff } .tiny { font-size: 9px; fill: #16222e }
    .spine { fill: #e8f1fb; stroke: #2f6fb2 } .rack { fill: #f4f6f8; stroke: #8a97a6 } .node { fill: #ffffff; stroke: #c3ccd6 }
    .plane { fill: #e9f6ec; stroke: #2e8b57 } .wire { fill: none; stroke-width: 1 } .up { stroke: #2f6fb2 }
    .low { stroke: #2e8b57; stroke-width: 1.5; fill: none }
"""


class Box(NamedTuple):
    """Rectangle of an element."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """Return the horizontal middle."""
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        """Return the lower edge."""
        return self.y + self.height


@dataclass(frozen=True)
class _Drawing:
    """Positions of all elements."""

    fabric: FabricPlan
    laid: Wiring
    racks: Mapping[str, list[str]]
    """Rack, or a placeholder where none is known -> its nodes, from the top."""
    cabinets: Mapping[str, Box]
    """The racks' boxes."""
    spines: Mapping[str, Box]
    leaves: Mapping[str, Box]


def picture(plan: Plan, nodes: int | None = None) -> str:
    """Return the drawing of the fabric for a number of nodes; None is the current number."""
    laid = at_size(plan, nodes)
    drawing = _drawing(plan, laid)
    bottom = max((box.bottom for box in drawing.cabinets.values()), default=_RACKS_Y)
    beside = list(_management(plan, drawing))
    height = bottom + (150 if beside else 50)
    said = escape(headline(plan))
    parts = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-labelledby="title"'
        f" font-family=\"system-ui, -apple-system, 'Segoe UI', sans-serif\">",
        f'<title id="title">{said}</title>\n<style>{_STYLE}</style>\n<rect class="page" width="{_WIDTH}" height="{height:g}"/>',
        *_words(plan, laid, said),
        *_wires(drawing),
        *_switches(drawing, positions(drawing.fabric)),
        *_cabinets(drawing),
        *beside,
        "</svg>\n",
    )
    return "\n".join(parts)


def _drawing(plan: Plan, laid: Wiring) -> _Drawing:
    assert plan.fabric is not None
    racks = _racks(plan, laid)
    tallest = max((len(nodes) for nodes in racks.values()), default=0)
    cabinets = _rows(racks, 26 + tallest * _NODE, _BETWEEN + (_PLANE + _SWITCH + 30 if plan.fabric.management else 0))
    spines = _row([switch.name for switch in (*laid.of(Level.SPINE), *laid.of(Level.CORE))], _SPINES_Y, _SWITCH, gap=4)
    leaves = laid.of(Level.LEAF)
    return _Drawing(plan.fabric, laid, racks, cabinets, spines, _row([leaf.name for leaf in leaves], _LEAVES_Y, _SWITCH, gap=4))


def _racks(plan: Plan, laid: Wiring) -> dict[str, list[str]]:
    """Return racks in the order of the floor. Without racks, group nodes by shared leaves; other nodes are not drawn."""
    fabric = plan.fabric
    assert fabric is not None
    known = node_racks(plan, laid.placements)
    units = {placement.node: unit_name(fabric, placement.place // fabric.per_unit) for placement in laid.placements}
    names = [*(node.name for node in plan.nodes), *(placement.node for placement in laid.placements if placement.node not in plan.by_name)]
    found: dict[str, list[str]] = {}
    for name in names:
        place = known.get(name) or units.get(name) or (name if name == fabric.subnet_manager else None)
        if place:
            found.setdefault(place, []).append(name)
    order = list(fabric.floor.places) if fabric.floor else []
    return dict(sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))


def _row(names: Iterable[str], y: float, height: float, gap: float) -> dict[str, Box]:
    """Return boxes side by side over the full width, none wider than necessary."""
    every = list(names)
    width = min(150.0, (_WIDTH - 2 * _MARGIN) / max(1, len(every)) - gap)
    left = (_WIDTH - len(every) * (width + gap) + gap) / 2
    return {name: Box(left + number * (width + gap), y, width, height) for number, name in enumerate(every)}


def _rows(racks: Iterable[str], height: float, between: float) -> dict[str, Box]:
    """Return racks in as few rows as their names allow; all rows but the last are equally long."""
    every = list(racks)
    per_row = ceil(len(every) / max(1, ceil(len(every) / _ABREAST)))
    found: dict[str, Box] = {}
    for number, first in enumerate(range(0, len(every), max(1, per_row))):
        found |= _row(every[first : first + per_row], _RACKS_Y + number * (height + between), height, gap=6)
    return found


def _words(plan: Plan, laid: Wiring, said: str) -> Iterator[str]:
    have = counts(plan, laid)
    wide = f", {have['bisection_gbps'] / 1000:g} Tb/s between its halves" if have["bisection_gbps"] else ""
    cables = have["cables_to_nodes"] + have["cables_between_switches"]
    above = f"{have['leaves']} leaves, {have['spines']} spines and {have['cores']} cores"
    switches = above if have["cores"] else f"{have['leaves']} leaves and {have['spines']} spines"
    yield f'<text class="title" x="{_MARGIN}" y="34">{said}</text>'
    yield f'<text class="text" x="{_MARGIN}" y="58">{have["nodes"]} nodes, {switches}, {cables} cables{wide}</text>'
    for rail in range(plan.fabric.rails if plan.fabric else 0):
        x = _MARGIN + rail * 74
        yield f'<rect x="{x}" y="72" width="14" height="14" fill="{_colour(rail)}"/>'
        yield f'<text class="text" x="{x + 20}" y="84">rail {rail}</text>'


def _colour(rail: int) -> str:
    return _RAILS[rail % len(_RAILS)]


def _wires(drawing: _Drawing) -> Iterator[str]:
    """Yield one path from each leaf to the spines; one from each leaf to the racks of its nodes, in its rail's colour."""
    up: dict[str, dict[str, None]] = {}
    down: dict[tuple[str, int], dict[str, None]] = {}
    cabinet = {node: rack for rack, nodes in drawing.racks.items() for node in nodes}
    for cable in drawing.laid.cables:
        if cable.device in drawing.leaves:
            up.setdefault(cable.device, {})[cable.switch] = None
        elif "/" in cable.device:  # Cables from spines to cores are not drawn: thousands, which cross all others.
            down.setdefault((cable.switch, cable.rail or 0), {})[cabinet[cable.device.split("/")[0]]] = None
    for leaf, spines in up.items():
        start = drawing.leaves[leaf]
        lines = "".join(
            f"M{start.middle:.0f} {start.y:g}L{drawing.spines[spine].middle:.0f} {drawing.spines[spine].bottom:g}" for spine in spines
        )
        yield f'<path class="wire up" stroke-opacity="{_faint(len(up) * len(spines))}" d="{lines}"/>'
    for (leaf, rail), racks in down.items():
        start = drawing.leaves[leaf]
        lines = "".join(f"M{start.middle:.0f} {start.bottom:g}L{_landing(drawing, rack, rail)}" for rack in racks)
        yield f'<path class="wire" stroke="{_colour(rail)}" stroke-opacity="0.8" d="{lines}"/>'


def _faint(lines: int) -> float:
    """Return the opacity of a line by the number of lines: where thousands cross, each is nearly transparent."""
    return round(min(0.6, max(0.06, 110 / lines)), 2)


def _landing(drawing: _Drawing, rack: str, rail: int) -> str:
    """Return the ends of rails, side by side on top of a rack."""
    box = drawing.cabinets[rack]
    return f"{box.x + box.width * (rail + 1) / (drawing.fabric.rails + 1):.0f} {box.y:g}"


def _switches(drawing: _Drawing, standing: Mapping[str, Position]) -> Iterator[str]:
    for name, box in drawing.spines.items():
        yield _box(box, "spine") + _label(box, name.removeprefix("spine-").removeprefix("core-"), "name")
    yield from _captions("spines", drawing.spines, drawing.laid.of(Level.SPINE), standing, _SPINES_Y - 10)
    yield from _captions("cores", drawing.spines, drawing.laid.of(Level.CORE), standing, _SPINES_Y - 10)
    rails = drawing.fabric.leaves_per_unit > 1
    for number, (name, box) in enumerate(drawing.leaves.items()):
        colour = _colour(number % drawing.fabric.leaves_per_unit) if rails else "#2f6fb2"
        kind = "name" if colour in _LIGHT else "on"
        yield _box(box, "leaf", f' fill="{colour}"') + _label(box, name.rsplit("-", 1)[1], kind)
    yield from _captions("leaves", drawing.leaves, drawing.laid.of(Level.LEAF), standing, _LEAVES_Y - 8)


def _captions(what: str, boxes: Mapping[str, Box], switches: Sequence[Switch], standing: Mapping[str, Position], y: float) -> Iterator[str]:
    """Yield captions over neighbours with the same rack and scalable unit: their names and location."""

    def together(switch: Switch) -> tuple[str, str]:
        rack = standing[switch.name].rack if switch.name in standing else ""
        return rack, switch.name.split("-")[1] if switch.level is Level.LEAF and "-su" in switch.name else ""

    for (rack, unit), group in groupby(switches, together):
        first = boxes[next(group).name]
        words = " ".join(filter(None, (unit or what, f"in {rack}" if rack else "")))
        yield f'<text class="text" x="{first.x:.0f}" y="{y:g}" stroke="#ffffff" stroke-width="4" paint-order="stroke">{words}</text>'


def _cabinets(drawing: _Drawing) -> Iterator[str]:
    for rack, nodes in drawing.racks.items():
        box = drawing.cabinets[rack]
        yield _box(box, "rack") + f'<text class="name" x="{box.middle:.0f}" y="{box.y + 15:g}" text-anchor="middle">{rack}</text>'
        for number, node in enumerate(nodes):
            inner = Box(box.x + 4, box.y + 22 + number * _NODE, box.width - 8, _NODE - 3)
            named = box.width >= _READABLE
            yield _box(inner, "node") + (_label(inner, node, "tiny") if named else "")


def _management(plan: Plan, drawing: _Drawing) -> Iterator[str]:
    """Yield one switch below each rack of nodes, all on the site's own network; in another colour, on the other side of the racks."""
    beside = management(plan, drawing.laid)
    drawn = (switch for switch in beside.switches if switch.rack in drawing.cabinets)
    under = sorted(drawn, key=lambda switch: drawing.cabinets[switch.rack].bottom)
    line = 0.0
    for bottom, row in groupby(under, lambda switch: drawing.cabinets[switch.rack].bottom):
        line = bottom + _PLANE + _SWITCH + 30
        for name, rack in row:
            above = drawing.cabinets[rack]
            box = Box(above.x, bottom + _PLANE, above.width, _SWITCH)
            yield f'<path class="low" d="M{box.middle:.0f} {bottom:g}V{box.y:g}M{box.middle:.0f} {box.bottom:g}V{line:g}"/>'
            yield _box(box, "plane") + _label(box, name if box.width >= _READABLE else "", "tiny")
        yield f'<path class="low" d="M{_MARGIN} {line:g}H{_WIDTH - _MARGIN}"/>'
    if under:
        words = f"management plane: {len(beside.switches)} switches, {len(beside.cables)} cables, separate from the fabric"
        yield f'<text class="text" x="{_MARGIN}" y="{line + 24:g}">{words}; switches of switch racks are not drawn</text>'


def _box(box: Box, kind: str, more: str = "") -> str:
    return f'<rect class="{kind}" x="{box.x:.1f}" y="{box.y:g}" width="{box.width:.1f}" height="{box.height:g}" rx="2"{more}/>'


def _label(box: Box, text: str, kind: str) -> str:
    return (
        f'<text class="{kind}" x="{box.middle:.1f}" y="{box.y + box.height / 2 + 4:g}" text-anchor="middle">{text}</text>' if text else ""
    )
