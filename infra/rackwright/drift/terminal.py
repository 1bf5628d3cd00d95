"""A drift document on a terminal of 80 columns: unknown results, differences by category, one row per layer, and the state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rackwright.drift.difference import Category, DriftItem, Layer, where_all
from rackwright.drift.document import DriftReport, LastVerified, State
from rackwright.drift.history import HistoryDelta

_COLOURS: Final = {Category.SECURITY: "magenta", Category.BREAKING: "red", Category.BENIGN: "yellow", Category.EXPECTED: "dim"}
_STATES: Final = {State.CLEAN: ("✓", "green"), State.DRIFTED: ("✗", "red"), State.UNKNOWN: ("?", "yellow")}


def render(found: DriftReport, changes: HistoryDelta | None = None) -> RenderableType:
    """Return the document for rich, with the changes since the previous scan if they are known."""
    parts: list[RenderableType] = [_unknown_result(*unknown) for unknown in found.unreachable]
    parts += map(_difference, found.grouped)
    parts += [
        _layers(found),
        *_method_reasons(found),
        *map(_last_verified, found.last_verified),
        _conclusion(found),
    ]
    if changes and changes.before is not None:
        parts.append(_since(found, changes))
    return Group(*parts)


def _since(found: DriftReport, changes: HistoryDelta) -> RenderableType:
    """Return the counts of new and resolved differences since the previous scan."""
    parts = [f"{len(changes.new)} new since the last scan", f"{len(changes.resolved)} resolved"]
    return Text(f"  {', '.join(parts)}; run `rackwright drift-history {found.stack}` to list all", style="dim")


def _unknown_result(layer: Layer, why: str, nodes: Sequence[str]) -> RenderableType:
    title = Text.assemble(("? ", "yellow"), (where_all(nodes), "bold yellow"), f"  {layer.value} unknown")
    return Group(title, Padding(Text(why), (0, 0, 1, 2)))


def _difference(alike: Sequence[DriftItem]) -> RenderableType:
    one, colour = alike[0], _COLOURS[alike[0].category]
    names = where_all(each.node for each in alike)
    title = Text.assemble(
        (f"{one.category.value}  ", colour), (one.subject, f"bold {colour}"), f"  {names}", (f"  {one.layer.value}", "dim")
    )
    table = Table.grid(padding=(0, 1))
    for name, value in (("declared", one.declared), ("live", one.live), ("remedy", one.remedy)):
        if value:
            table.add_row(Text(name, style="dim"), Text(value))
    return Group(title, Padding(table, (0, 0, 1, 2)))


def _layers(found: DriftReport) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("layer")
    for category in reversed(Category):
        table.add_column(category.value, justify="right")
    table.add_column("unknown", justify="right")
    table.add_column("took", justify="right")
    for scan in found.layers:
        counts = [_count(one.category is category for one in scan.differences) for category in reversed(Category)]
        table.add_row(scan.layer.value, *counts, _count(True for _ in scan.unknown), f"{scan.seconds:.1f} s")
    return table


def _method_reasons(found: DriftReport) -> list[RenderableType]:
    """Return the reason for the method by which a layer was scanned, if there is more than one."""
    return [Text(f"  {scan.layer.value}: {scan.message}", style="dim") for scan in found.layers if scan.message]


def _last_verified(one: LastVerified) -> RenderableType:
    """Return the last verdict that jobs proved; a scan runs no jobs."""
    return Text(f"  {one}", style="dim")


def _count(every: Iterable[bool]) -> str:
    return str(sum(every) or "·")


def _conclusion(found: DriftReport) -> RenderableType:
    mark, colour = _STATES[found.state]
    count = len(found.differences)
    summary = f"{count} difference{'' if count == 1 else 's'} in {found.seconds:.1f} s"
    return Text.assemble((f"{mark} {found.stack}: {found.state.value}", f"bold {colour}"), f"\n  {summary}")
