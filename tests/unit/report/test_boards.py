"""Boards as data of the page, and as dashboards of Grafana."""

from __future__ import annotations

import json
import re
from typing import Any

import promql_parser
import pytest
from support.monitored import monitored

from rackwright.catalog.boards import INTERVAL, Board, PanelForm, boards
from rackwright.report.boards.grafana import grafana_dashboard
from rackwright.report.boards.page import page_data, page_files

BOARDS = [pytest.param(board, id=board.name) for board in boards()]


def monitoring() -> dict[str, Any]:
    plan = monitored()
    assert plan.monitoring is not None
    return plan.monitoring.model_dump(mode="json")


def dashboard(board: Board) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(grafana_dashboard("lab", board))
    return found


@pytest.mark.parametrize("board", BOARDS)
class TestDashboard:
    def test_every_panel_is_there_with_its_query(self, board: Board) -> None:
        found = dashboard(board)["panels"]
        assert [(one["title"], one["targets"][0]["expr"]) for one in found] == [(one.title, one.expression) for one in board.panels]
        assert [one["type"] for one in found] == [
            {PanelForm.VALUE: "stat", PanelForm.LINES: "timeseries", PanelForm.ROWS: "table"}[one.form] for one in board.panels
        ]

    def test_panels_have_unit_and_do_not_overlap(self, board: Board) -> None:
        cells: set[tuple[int, int]] = set()
        for one in dashboard(board)["panels"]:
            assert one["fieldConfig"]["defaults"]["unit"]
            place = one["gridPos"]
            own = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
            assert not own & cells and place["x"] + place["w"] <= 24
            cells |= own

    def test_variables_of_queries_are_declared(self, board: Board) -> None:
        found = dashboard(board)
        declared = {one["name"] for one in found["templating"]["list"]}
        used = set(re.findall(r"\$\{?(\w+)", json.dumps(found["panels"]) + json.dumps(found["annotations"])))
        assert used - {"__rate_interval"} <= declared

    def test_queries_of_a_site_read_one_stack(self, board: Board) -> None:
        found = json.loads(grafana_dashboard("lab", board, is_labelled=True))
        for query in (*(one["targets"][0]["expr"] for one in found["panels"]), *(one["expr"] for one in found["annotations"]["list"])):
            text = str(promql_parser.parse(query.replace(INTERVAL, "60s")))
            selectors = len(re.findall(r"[{]", text))
            assert selectors == text.count('stack="lab"') > 0, text

    def test_text_is_the_same_each_time(self, board: Board) -> None:
        assert grafana_dashboard("lab", board) == grafana_dashboard("lab", board)
        assert dashboard(board)["uid"] != json.loads(grafana_dashboard("other", board))["uid"] and len(dashboard(board)["uid"]) <= 40


def test_limit_of_an_alarm_is_coloured_beyond_it() -> None:
    fleet = {one["title"]: one["fieldConfig"]["defaults"]["thresholds"]["steps"] for one in dashboard(boards()[0])["panels"]}
    assert fleet["Alerts that fire"] == [{"value": None, "color": "green"}, {"value": 1e-9, "color": "red"}]
    assert fleet["Targets that are up"] == [{"value": None, "color": "red"}, {"value": 1.0, "color": "green"}]


def test_legend_is_a_template_of_grafana() -> None:
    legends = {one["title"]: one["targets"][0]["legendFormat"] for one in dashboard(boards()[0])["panels"]}
    assert legends["Alerts by name, with Watchdog"] == "{{alertname}} ({{severity}})"


def test_page_has_its_files_and_no_foreign_address() -> None:
    files = page_files("lab", monitoring(), boards())
    page = files[""].content.decode()
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert {name for name in loaded if not name.startswith("data:")} <= set(files)
    for name in ("boards.js", "charts.js", "tables.js"):
        assert {one.removeprefix("./") for one in re.findall(r'from "([^"]+)"', files[name].content.decode())} <= set(files)
    assert "MIT License" in files["uplot/LICENSE"].content.decode()
    own = b"".join(one.content for name, one in files.items() if not name.startswith("uplot/"))
    assert set(re.findall(rb"https?://[^\s\"'`]+", own)) <= {b"http://www.w3.org/2000/svg"}


def test_page_writes_no_html_from_data() -> None:
    """Labels and summaries are texts of the cluster."""
    files = page_files("lab", monitoring(), boards())
    scripts = b"".join(one.content for name, one in files.items() if name.endswith(".js") and not name.startswith("uplot/"))
    assert not re.search(rb"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", scripts)


def test_data_of_the_page() -> None:
    data = page_data("lab", monitoring(), boards())
    assert data["nodes"] == ["login0", "worker0", "worker1", "storage0"] and data["interval_s"] == 15 and data["server"] == "login0"
    assert [one["title"] for one in data["boards"]] == [one.title for one in boards()]
    assert data["boards"][0]["panels"][0]["alarm"] == {"above": False, "limit": 1.0}
