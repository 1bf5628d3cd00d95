"""SVG picture of the planned cluster, each part in the colour of its state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from rackwright.drift.document import DriftReport
from rackwright.drift.page.state import MARKS, of_node, of_subject

_GAP: Final = 12
"""Pixels between two parts of the picture. Chosen by eye, as are the sizes below."""
_BAND: Final = 44
"""Height of the fabric and of a file system, in pixels."""
_MOST_DRAWN: Final = 16
"""Maximum number of GPUs of a node that are drawn one by one."""
_WHOLE: Final = 800
"""Approximate width of a picture of tiles, in pixels."""
_LETTER: Final = 7
"""Pixels reserved for a letter of a name. Chosen by eye."""
_LONGEST: Final = 24
"""Maximum number of letters of a name in the picture; the part's title has the whole name."""
_SERVES: Final = ("login", "controller")
_KEEPS: Final = ("storage",)


@dataclass(frozen=True, slots=True)
class _Grid:
    """Number of boxes in a row, and their size."""

    columns: int
    width: int
    height: int

    @property
    def whole(self) -> int:
        """Return the width of the picture, in pixels."""
        return self.columns * (self.width + _GAP) + _GAP


def picture(found: DriftReport, cluster: Mapping[str, Any], nodes: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the picture; `cluster` and the node records are from the inventory."""
    rows = _rows(nodes)
    grid = _grid(max((len(row) for row in rows), default=1), max(map(len, nodes), default=0))
    parts, y = [], _GAP
    for index, row in enumerate(rows):
        if index == 1 and cluster.get("fabric"):
            fabric = cluster["fabric"]
            parts.append(_band(grid, y, "fabric", _fabric(fabric), of_subject(found, "fabric", _cabled(fabric, nodes))))
            y += _BAND + _GAP
        for start in range(0, len(row), grid.columns):
            line = row[start : start + grid.columns]
            parts += [_node(grid, column, y, name, nodes[name], of_node(found, name)) for column, name in enumerate(line)]
            y += grid.height + _GAP
    for one in cluster.get("storage") or ():
        state = of_subject(found, "storage", [*one["servers"], *one["clients"]])
        parts.append(_band(grid, y, one["name"], f"{one['kind']}, {one['mount']}", state))
        y += _BAND + _GAP
    title = f"<title>{escape(found.stack)} as planned, coloured by state</title>"
    return f'<svg viewBox="0 0 {grid.whole} {y}" role="img">{title}{"".join(parts)}</svg>'


def _rows(nodes: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return the rows: login nodes and controllers, workers, storage servers."""
    serve = [name for name, node in nodes.items() if set(node["roles"]) & set(_SERVES)]
    keep = [name for name, node in nodes.items() if name not in serve and set(node["roles"]) & set(_KEEPS)]
    return [serve, [name for name in nodes if name not in {*serve, *keep}], keep]


def _grid(most: int, longest: int) -> _Grid:
    """Return the grid: a few nodes stay readable on a phone; many become tiles, as wide as the longest name."""
    name = 40 + _LETTER * min(longest, _LONGEST)
    if most <= 6:
        return _Grid(2, max(190, name), 64)
    if most <= 32:
        return _Grid(4, max(150, name), 64)
    return _Grid(max(2, min(8, _WHOLE // (name + _GAP))), name, 34)


def _node(grid: _Grid, column: int, y: int, name: str, node: Mapping[str, Any], state: str) -> str:
    x = _GAP + column * (grid.width + _GAP)
    head = f'<text x="{x + 10}" y="{y + 22}"><tspan class="mark">{MARKS[state]}</tspan> {escape(_short(name))}</text>'
    rest = _inside(x + 10, y + 36, node) if grid.height > _BAND else ""
    title = f"<title>{escape(name)}: {state}</title>"
    return f'<g class="{state}">{title}{_box(x, y, grid.width, grid.height)}{head}{rest}</g>'


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _inside(x: int, y: int, node: Mapping[str, Any]) -> str:
    """Return the node's GPUs one by one, or its roles."""
    gpus = node.get("gpus") or {}
    count = gpus.get("count", 0)
    if not count:
        return f'<text class="small" x="{x}" y="{y + 10}">{escape(", ".join(node["roles"]))}</text>'
    if count > _MOST_DRAWN:
        return f'<text class="small" x="{x}" y="{y + 10}">{count} GPUs</text>'
    return "".join(f'<rect class="part" x="{x + index * 10}" y="{y}" width="7" height="12"/>' for index in range(count))


def _fabric(fabric: Mapping[str, Any]) -> str:
    return f"{fabric['kind']}, {fabric['rails']} rails, {len(fabric['switches'])} switches, {fabric['rate_gbps']} Gb/s"


def _cabled(fabric: Mapping[str, Any], nodes: Collection[str]) -> set[str]:
    """Return the nodes with a cable in the fabric."""
    return {cable.partition("/")[0] for cable in fabric["cables"]} & set(nodes)


def _band(grid: _Grid, y: int, name: str, caption: str, state: str) -> str:
    """Return the band of a part that all nodes share."""
    text = f'<text x="{_GAP + 10}" y="{y + 19}"><tspan class="mark">{MARKS[state]}</tspan> {escape(name)}</text>'
    small = f'<text class="small" x="{_GAP + 10}" y="{y + 35}">{escape(caption)}</text>'
    title = f"<title>{escape(name)}: {state}</title>"
    return f'<g class="{state}">{title}{_box(_GAP, y, grid.whole - 2 * _GAP, _BAND)}{text}{small}</g>'


def _box(x: int, y: int, width: int, height: int) -> str:
    return f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'


def simulated(cluster: Mapping[str, Any]) -> Sequence[str]:
    """Return the simulated subsystems."""
    return list(cluster.get("simulated") or ())
