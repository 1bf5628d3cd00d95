"""Boards as dashboards of Grafana, by Grafana's own library (ADR 37). Panels are laid out as on the page."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement, VisibilityMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from rackwright.catalog.boards import NODE, RUNS, Board, Panel, PanelAlarm, PanelForm, PanelUnit
from rackwright.inventory.promql import with_label

_UNITS: Final[Mapping[PanelUnit, str]] = {
    PanelUnit.COUNT: "short",
    PanelUnit.SHARE: "percentunit",
    PanelUnit.PERCENT: "percent",
    PanelUnit.YES_NO: "bool_yes_no",
    PanelUnit.SECONDS: "s",
    PanelUnit.BYTES: "bytes",
    PanelUnit.BYTES_PER_SECOND: "Bps",
    PanelUnit.PER_SECOND: "cps",
    PanelUnit.CELSIUS: "celsius",
    PanelUnit.WATTS: "watt",
}
"""Identifiers of units in Grafana 11.6 (packages/grafana-data/src/valueFormats/categories.ts)."""
_WIDTH: Final = {PanelForm.VALUE: 6, PanelForm.LINES: 12, PanelForm.ROWS: 12}
_HEIGHT: Final = {PanelForm.VALUE: 4, PanelForm.LINES: 8, PanelForm.ROWS: 8}
_NARROW: Final = 4
"""Width of a number where more than fit into a row have the usual width."""
_COLUMNS: Final = 24
"""Of Grafana's grid; a row has 30 pixels."""
_SOURCE: Final = "datasource"
"""Name of the variable for the data source, which the reader chooses in Grafana."""
_ABOVE: Final = 1e-9
"""Added to a limit that a value must exceed: Grafana colours a value that equals it as well."""


def grafana_dashboard(stack: str, board: Board, *, is_labelled: bool = False) -> str:
    """Return the JSON of a dashboard, the same for the same board; it can be imported, and provisioned from a file.

    is_labelled: every series has the label `stack`, and other stacks have series beside it; queries then select this one.
    """
    query = partial(with_label, label="stack", value=stack) if is_labelled else str
    built = (
        dashboard.Dashboard(f"{stack}: {board.title}")
        .uid(f"rw-{board.name}-{hashlib.sha256(stack.encode()).hexdigest()[:10]}")  # Grafana allows 40 characters.
        .tags(["rackwright", stack])
        .readonly()
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable(_SOURCE).label("Data source").type("prometheus"))
        .link(dashboard.DashboardLink("Boards").type(models.DashboardLinkType.DASHBOARDS).tags([stack]).as_dropdown(True).keep_time(True))
    )
    if any(NODE in panel.expression for panel in board.panels):
        built.with_variable(_node_variable(query('up{job="node"}')))
    for name, metric in RUNS.items():
        built.annotation(_annotation(name, query(metric)))
    for panel, place in zip(board.panels, _places(board.panels), strict=True):
        built.with_panel(_panel(replace(panel, expression=query(panel.expression))).grid_pos(place))
    return JSONEncoder(sort_keys=True, indent=2).encode(built.build()) + "\n"


def _source() -> models.DataSourceRef:
    return models.DataSourceRef(type_val="prometheus", uid=f"${{{_SOURCE}}}")


def _node_variable(series: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(NODE.removeprefix("$"))
        .label("Node")
        .datasource(_source())
        .query({"query": f"label_values({series}, instance)", "refId": "nodes"})
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.NATURAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".+")
        .current(models.VariableOption(text="All", value="$__all", selected=True))
    )


def _annotation(name: str, metric: str) -> dashboard.AnnotationQuery:
    """Return a mark at the end of each run: the time of the last run changes then."""
    expression = f"max(changes({metric}[$__rate_interval])) > 0"
    return dashboard.AnnotationQuery().name(name).datasource(_source()).enable(True).icon_color("blue").expr(expression)


def _places(panels: Sequence[Panel]) -> Iterator[models.GridPos]:
    """Yield the place of each panel, from left to right; the library's own layout exceeds the width."""
    x = y = height = 0
    narrow = sum(panel.form is PanelForm.VALUE for panel in panels) > _COLUMNS // _WIDTH[PanelForm.VALUE]
    for panel in panels:
        width = _NARROW if narrow and panel.form is PanelForm.VALUE else _WIDTH[panel.form]
        if x + width > _COLUMNS:
            x, y, height = 0, y + height, 0
        yield models.GridPos(x=x, y=y, w=width, h=_HEIGHT[panel.form])
        x, height = x + width, max(height, _HEIGHT[panel.form])


def _panel(panel: Panel) -> Any:
    built: Any = _BUILDERS[panel.form](panel)
    built.title(panel.title).datasource(_source()).unit(_UNITS[panel.unit])
    return built.thresholds(_thresholds(panel.alarm))


def _query(panel: Panel) -> prometheus.Dataquery:
    """Return the query; a label in a legend is a template of Grafana."""
    legend = re.sub(r"<(\w+)>", r"{{\1}}", panel.legend)
    return prometheus.Dataquery().ref_id("A").expr(panel.expression).legend_format(legend).datasource(_source())


def _value(panel: Panel) -> stat.Panel:
    return stat.Panel().with_target(_query(panel).instant())


def _lines(panel: Panel) -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM).show_legend(True)
    return timeseries.Panel().with_target(_query(panel).range()).legend(legend).show_points(VisibilityMode.NEVER).line_width(1)


def _rows(panel: Panel) -> table.Panel:
    """Return a table with a row for each series: its name, and its latest value."""
    reduced = models.DataTransformerConfig(id_val="reduce", options={"reducers": ["lastNotNull"], "labelsToFields": False})
    return table.Panel().with_target(_query(panel).instant().format(PromQueryFormat.TIME_SERIES)).with_transformation(reduced)


_BUILDERS: Final = {PanelForm.VALUE: _value, PanelForm.LINES: _lines, PanelForm.ROWS: _rows}


def _thresholds(alarm: PanelAlarm | None) -> dashboard.ThresholdsConfig:
    steps = [models.Threshold(value=None, color="text" if alarm is None else "green" if alarm.above else "red")]
    if alarm is not None:
        limit = alarm.limit + _ABOVE if alarm.above else alarm.limit
        steps.append(models.Threshold(value=limit, color="red" if alarm.above else "green"))
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)
