"""The page of boards: its files by path, and the data that its program reads.

The page loads nothing from other servers. It draws with uPlot (MIT), whose files lie beside it as npm packs them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from rackwright.catalog.boards import RUNS, Board, Panel

_ASSETS: Final = {
    "": ("index.html", "text/html; charset=utf-8"),
    "boards.css": ("boards.css", "text/css; charset=utf-8"),
    "boards.js": ("boards.js", "text/javascript; charset=utf-8"),
    "format.js": ("format.js", "text/javascript; charset=utf-8"),
    "charts.js": ("charts.js", "text/javascript; charset=utf-8"),
    "tables.js": ("tables.js", "text/javascript; charset=utf-8"),
    "uplot/uPlot.iife.min.js": ("uplot/uPlot.iife.min.js", "text/javascript; charset=utf-8"),
    "uplot/uPlot.min.css": ("uplot/uPlot.min.css", "text/css; charset=utf-8"),
    "uplot/LICENSE": ("uplot/LICENSE", "text/plain; charset=utf-8"),
}
"""By path below the page: the file of the package, and its type."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file that the server serves."""

    content: bytes
    type: str


def page_files(stack: str, monitoring: Mapping[str, Any], boards: Iterable[Board]) -> dict[str, PageFile]:
    """Return every file of the page by its path. `monitoring`: the plan of monitoring of the stack's inventory."""
    folder = files("rackwright.report.boards") / "assets"
    served = {path: PageFile(folder.joinpath(name).read_bytes(), kind) for path, (name, kind) in _ASSETS.items()}
    text = json.dumps(page_data(stack, monitoring, boards), indent=1)
    return {**served, "boards.json": PageFile(text.encode(), "application/json")}


def page_data(stack: str, monitoring: Mapping[str, Any], boards: Iterable[Board]) -> dict[str, Any]:
    """Return what the page draws: stack, nodes, scrape interval in seconds, and boards with their panels."""
    return {
        "stack": stack,
        "server": monitoring["server"],
        "interval_s": monitoring["interval_s"],
        "nodes": [node["name"] for node in monitoring["nodes"]],
        "runs": dict(RUNS),
        "boards": [{"name": board.name, "title": board.title, "panels": [_panel(one) for one in board.panels]} for board in boards],
    }


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        "title": panel.title,
        "form": panel.form.value,
        "unit": panel.unit.value,
        "expr": panel.expression,
        "legend": panel.legend,
        "alarm": {"above": panel.alarm.above, "limit": panel.alarm.limit} if panel.alarm else None,
    }
