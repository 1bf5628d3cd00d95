"""A search for what makes a collective slow, on a terminal: its rounds, then each culprit with its evidence and what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_NAMED: Final = 4
"""Most nodes of a group to name."""
_STYLES: Final = {"as-planned": "green", "slow": "red", "failed": "red", "not-measured": "yellow"}
_OUTCOMES: Final = {
    "as-planned": "nothing found: all nodes together are as planned",
    "not-reproduced": "not reproduced: a group was slow, and as planned in its second measurement",
    "only-together": "all nodes together are slow, and no smaller group is: the fabric as a whole, not a part of it",
    "undetermined": "no result",
}


def render_bisection(found: Mapping[str, Any]) -> RenderableType:
    """Return the search as a rich renderable for 80 columns."""
    count, jobs = len(found["rounds"]), found["jobs"]
    parts: list[RenderableType] = [Text(f"\nbisection: {found['collective']}", style="bold"), _rounds(found)]
    parts.append(
        Text(f"{count} rounds, {jobs} jobs; as planned from {found['least']:g} of {found['expected']:g} {found['unit']}", style="dim")
    )
    parts += [_culprit(culprit, found["unit"]) for culprit in found["culprits"]]
    if not found["culprits"]:
        reason = f": {found['reason']}" if found["reason"] else ""
        parts.append(Text(f"{_OUTCOMES[found['outcome']]}{reason}", style="green" if found["outcome"] == "as-planned" else "yellow"))
    if found["left_out"]:
        parts.append(Text("not measured: " + ", ".join(f"{node} ({reason})" for node, reason in found["left_out"].items()), style="yellow"))
    return Group(*parts, Text())


def _rounds(found: Mapping[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("round", justify="right")
    table.add_column("group", overflow="fold")
    table.add_column(found["unit"], justify="right")
    table.add_column("")
    for number, figures in enumerate(found["rounds"], start=1):
        for place, figure in enumerate(figures):
            value = "·" if figure["value"] is None else f"{figure['value']:.3g}"
            state = Text(figure["state"].replace("-", " "), style=_STYLES[figure["state"]])
            table.add_row("" if place else str(number), _named(figure), value, state)
    return table


def _culprit(culprit: Mapping[str, Any], unit: str) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("measured", f"{culprit['measured']:.3g} {unit}")
    table.add_row("expected", f"{culprit['expected']:.3g} {unit}")
    for name in ("slow", "as_planned"):
        if culprit[name]:
            table.add_row(name.replace("_", " "), _groups(culprit[name]))
    table.add_row("next", culprit["next"])
    return Group(Text(f"✗ {culprit['text']}", style="bold red"), Padding(table, (0, 0, 0, 2)))


def _groups(figures: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(f"{_named(figure)}: {figure['value']:.3g}" for figure in figures)


def _named(figure: Mapping[str, Any]) -> str:
    """Return the nodes of a group, the first and the last of a large one.

    >>> _named({"nodes": ["w0", "w1"], "rail": "mlx5_0"})
    'w0, w1 on mlx5_0'
    """
    nodes = figure["nodes"]
    words = ", ".join(nodes) if len(nodes) <= _NAMED else f"{nodes[0]} … {nodes[-1]} ({len(nodes)} nodes)"
    return f"{words} on {figure['rail']}" if figure["rail"] else words
