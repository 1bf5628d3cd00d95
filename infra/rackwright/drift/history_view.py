"""`rackwright drift-history` on a terminal and as `rackwright.history/3`: open and resolved differences, and the last scans."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rackwright.drift.difference import where
from rackwright.drift.history import DriftRecord, ScanRecord

SCHEMA: Final = "rackwright.history/3"


def as_dict(stack: str, scans: Sequence[ScanRecord], seen: Sequence[DriftRecord]) -> dict[str, Any]:
    """Return the document `rackwright.history/3`."""
    return {
        "schema": SCHEMA,
        "stack": stack,
        "scans": [
            {"started": one.started.isoformat(), "seconds": round(one.seconds, 3), "state": one.state.value, "differences": one.differences}
            for one in scans
        ],
        "differences": [
            {
                **one.difference.as_dict(),
                "first": one.first.isoformat(),
                "last": one.last.isoformat(),
                "resolved": one.resolved.isoformat() if one.resolved else None,
            }
            for one in seen
        ],
    }


def render(scans: Sequence[ScanRecord], seen: Sequence[DriftRecord]) -> RenderableType:
    """Return the differences, then the scans, the newest first."""
    differences = _table("first seen", "until", "category", "difference", "node")
    for one in seen:
        until = f"resolved {_short(one.resolved)}" if one.resolved else "open"
        found = one.difference
        differences.add_row(_short(one.first), until, found.category.value, found.subject, where(found.node))
    passed = _table("scanned", "took", "differences", "state")
    for scan in scans:
        passed.add_row(_short(scan.started), f"{scan.seconds:.1f} s", str(scan.differences), scan.state.value)
    return Group(differences if seen else Text("no differences on record"), Text(), passed)


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in heads:
        table.add_column(head, overflow="fold")
    return table


def _short(at: datetime) -> str:
    """Return date and minute in the local time zone."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M")
