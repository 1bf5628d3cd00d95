"""The boards of monitoring: one row per panel, with its query, unit and legend."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

from rackwright.catalog.alerts import Part
from rackwright.yaml_loader import load_yaml

_FILE: Final = Path(__file__).with_name("boards.yml")
_KEYS: Final = frozenset({"form", "unit", "expr", "legend", "alarm", "needs"})
NODE: Final = "$node"
"""Placeholder of a regular expression that matches the chosen nodes."""
INTERVAL: Final = "$__rate_interval"
"""Placeholder of the time over which a rate is computed; the name is Grafana's, and it means four scrape intervals at least."""

RUNS: Final[Mapping[str, str]] = {
    "verification": "rackwright_verify_last_completion_timestamp_seconds",
    "drift scan": "rackwright_drift_last_completion_timestamp_seconds",
    "acceptance test": "rackwright_acceptance_last_completion_timestamp_seconds",
    "injected failure": "rackwright_chaos_last_injection_timestamp_seconds",
}
"""What is marked in every chart: the metric whose value is the time at which the last run ended, or the last failure was injected."""


class PanelForm(StrEnum):
    """How a panel shows its series."""

    VALUE = "value"
    LINES = "lines"
    ROWS = "rows"


class PanelUnit(StrEnum):
    """Unit of a panel's values."""

    COUNT = "count"
    SHARE = "share"
    """0 to 1, shown as percent."""
    PERCENT = "percent"
    """0 to 100."""
    YES_NO = "yes or no"
    SECONDS = "seconds"
    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes/s"
    PER_SECOND = "per second"
    CELSIUS = "celsius"
    WATTS = "watts"


@dataclass(frozen=True, slots=True)
class PanelAlarm:
    """Values that are marked as bad."""

    above: bool
    """Whether values above the limit are bad; otherwise those below it."""
    limit: float


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel, as declared in the catalogue."""

    title: str
    form: PanelForm
    unit: PanelUnit
    expression: str
    """PromQL with the placeholders NODE and INTERVAL."""
    legend: str
    """Name of a series; `<label>` stands for a label."""
    alarm: PanelAlarm | None
    needs: frozenset[Part]

    def query(self, interval_s: int, node: str = ".+") -> str:
        """Return the PromQL for a scrape interval in seconds, and for nodes that match a regular expression."""
        return self.expression.replace(INTERVAL, f"{4 * interval_s}s").replace(NODE, node)


@dataclass(frozen=True, slots=True)
class Board:
    """A board and its panels."""

    name: str
    title: str
    panels: tuple[Panel, ...]


@cache
def boards() -> tuple[Board, ...]:
    """Return all boards in the order of the table."""
    found: dict[str, dict[str, Any]] = load_yaml(_FILE.read_text(encoding="utf-8"))
    return tuple(
        Board(name, board["title"], tuple(_panel(name, title, row) for title, row in board["panels"].items()))
        for name, board in found.items()
    )


def boards_of(parts: frozenset[Part]) -> tuple[Board, ...]:
    """Return the boards of a plan with these parts; a board without a panel is left out."""
    chosen = (replace(board, panels=tuple(panel for panel in board.panels if panel.needs <= parts)) for board in boards())
    return tuple(board for board in chosen if board.panels)


def _panel(board: str, title: str, row: Mapping[str, Any]) -> Panel:
    """Return a row as a panel. Raise ValueError for an unknown key, and KeyError for a missing one."""
    where = f"{_FILE.name}: {board}: {title}"
    if unknown := set(row) - _KEYS:
        raise ValueError(f"{where}: unknown key {', '.join(sorted(unknown))}")
    return Panel(
        title=title,
        form=PanelForm(row["form"]),
        unit=PanelUnit(row["unit"]),
        expression=" ".join(row["expr"].split()),
        legend=row["legend"],
        alarm=_alarm(where, row["alarm"]) if "alarm" in row else None,
        needs=frozenset(Part(need) for need in row.get("needs", ())),
    )


def _alarm(where: str, text: str) -> PanelAlarm:
    found = re.fullmatch(r"(above|below) (\d+(?:\.\d+)?)", text)
    if not found:
        raise ValueError(f"{where}: alarm: expected `above N` or `below N`, found {text!r}")
    return PanelAlarm(found[1] == "above", float(found[2]))
