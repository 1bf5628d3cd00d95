"""The page of boards in a browser, before a Prometheus that answers with made series: no lab."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser
from support.board_browser import BoardPage, chromium
from support.monitored import monitored

from rackwright.catalog.boards import boards
from rackwright.drivers.monitoring_relay import RelayAnswer, RelayRequest
from rackwright.errors import UndeterminedError
from rackwright.operations.monitor.server import BoardServer
from rackwright.report.boards.page import page_files

HOSTILE = "<img src=x onerror=alert(1)>"
ALERT = {
    "state": "firing",
    "activeAt": "2026-11-27T16:00:00Z",
    "labels": {"alertname": "UnitDown", "severity": "critical", "instance": "worker1"},
    "annotations": {"summary": f"slurmd {HOSTILE}", "remedy": "restart it"},
}
TARGET = {
    "labels": {"job": "node", "instance": "worker1"},
    "health": "down",
    "lastScrape": "2026-11-27T16:00:00Z",
    "lastScrapeDuration": 0.02,
    "lastError": "connection refused",
}


PIXELS = """parts => parts.map(part => {
  const { data } = part.getContext("2d").getImageData(0, 0, part.width, part.height);
  const distance = at => Math.abs(data[at] - 57) + Math.abs(data[at + 1] - 135) + Math.abs(data[at + 2] - 229);
  let found = 0;
  for (let at = 0; at < data.length; at += 4) found += distance(at) < 40;
  return found;
})"""
"""Pixels of each chart in the colour of its first line, #3987e5."""


class Prometheus:
    """Answers of a relay: two series for every query, in a range or now, unless the test says otherwise."""

    node = "login0"

    def __init__(self) -> None:
        self.lost = threading.Event()
        self.queries: list[str] = []
        self.values = {"worker0": "3", "worker1": "NaN"}
        self.broken = ""

    def send(self, request: RelayRequest) -> RelayAnswer:
        if self.broken:
            raise UndeterminedError(self.broken, path=self.node)
        split = urlsplit(request.path)
        asked = {name: values[0] for name, values in parse_qs(split.query).items()}
        self.queries += [asked["query"]] if "query" in asked else []
        if "bad" in asked.get("query", ""):
            return self.answer(400, {"status": "error", "error": "parse error: bad"})
        answers = {"alerts": lambda: {"alerts": [ALERT]}, "targets": lambda: {"activeTargets": [TARGET]}}
        name = split.path.rpartition("/")[2]
        return self.answer(200, {"status": "success", "data": answers[name]() if name in answers else self.result(name, asked)})

    def result(self, name: str, asked: dict[str, str]) -> dict[str, Any]:
        labels = [{"__name__": "m", "instance": node, "job": HOSTILE, "gpu": "0"} for node in self.values]
        if name == "query":
            found = [{"metric": one, "value": [time.time(), value]} for one, value in zip(labels, self.values.values(), strict=True)]
            return {"resultType": "vector", "result": found}
        moments = range(int(asked["start"]), int(asked["end"]) + 1, int(asked["step"]))
        found = [
            {"metric": one, "values": [[at, value] for at in moments]} for one, value in zip(labels, self.values.values(), strict=True)
        ]
        return {"resultType": "matrix", "result": found}

    def answer(self, status: int, found: Any) -> RelayAnswer:
        return RelayAnswer(status, "application/json", json.dumps(found).encode())

    def why_lost(self) -> str:
        return ""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def prometheus() -> Prometheus:
    return Prometheus()


@pytest.fixture
def page(browser: Browser, prometheus: Prometheus) -> Iterator[BoardPage]:
    plan = monitored()
    assert plan.monitoring is not None
    files = page_files("lab", plan.monitoring.model_dump(mode="json"), boards())
    with BoardServer(prometheus, files) as server:  # type: ignore[arg-type]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        opened = BoardPage(browser, server.addresses.page)
        yield opened
        opened.page.close()
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("board", [pytest.param(board, id=board.name) for board in boards()])
def test_board_draws_every_panel(page: BoardPage, board: Any) -> None:
    assert page.open(board.name) == {panel.title: "data" for panel in board.panels}
    assert page.messages == [] and page.page.locator("#trouble").is_hidden()
    assert {urlsplit(url).netloc for url in page.requests if not url.startswith("data:")} == {urlsplit(page.address).netloc}
    charts = page.page.locator("section.lines canvas").count()
    assert charts == sum(panel.form.value == "lines" for panel in board.panels)


def test_queries_hold_no_placeholder_and_the_chosen_node(page: BoardPage, prometheus: Prometheus) -> None:
    page.open("node", node="worker0")
    assert not [query for query in prometheus.queries if "$" in query]
    assert any('instance=~"worker0"' in query and "[60s]" in query for query in prometheus.queries)


def test_labels_are_text(page: BoardPage) -> None:
    page.open("fleet")
    assert page.page.locator("img").count() == 0 and HOSTILE in page.panel("Targets that are down, by job")
    page.open("alerts")
    assert page.page.locator("img").count() == 0 and f"slurmd {HOSTILE}" in page.panel("Alerts") and page.messages == []


def test_alerts_and_targets_are_listed(page: BoardPage) -> None:
    assert page.open("alerts") == {"Alerts": "data", "Targets": "data"}
    assert "1 critical, 0 warnings fire" in page.page.locator("#alarms").inner_text()
    assert "UnitDown" in page.panel("Alerts") and "connection refused" in page.panel("Targets")


def test_panel_without_series_is_empty(page: BoardPage, prometheus: Prometheus) -> None:
    prometheus.values = {}
    assert set(page.open("gpu").values()) == {"empty"} and "no data" in page.panel("Temperature")


def test_missing_number_is_a_dash_and_not_good(page: BoardPage, prometheus: Prometheus) -> None:
    prometheus.values = {"worker0": "NaN"}
    page.open("gpu")
    assert "\N{EN DASH}" in page.panel("GPUs missing")
    assert page.page.locator(".number.good, .number.bad").count() == 0


@pytest.mark.parametrize("value", ["NaN", "+Inf", "0"])
def test_lines_are_drawn_beside_a_missing_number(page: BoardPage, prometheus: Prometheus, value: str) -> None:
    prometheus.values = {"worker0": "3", "worker1": value}
    page.open("node")
    drawn = page.page.eval_on_selector_all("canvas", PIXELS)
    assert len(drawn) > 5 and min(drawn) > 200, drawn


def test_bad_values_are_marked(page: BoardPage) -> None:
    page.open("fleet")
    alarms = page.page.locator("section", has_text="Alerts that fire").locator(".number")
    assert "bad" in (alarms.first.get_attribute("class") or "")


def test_query_is_answered_or_refused(page: BoardPage) -> None:
    assert page.open("query", expr="m") == {"": "data", "Now": "data", "Over time": "data"}
    assert 'm{instance="worker0"' in page.panel("Now")
    assert page.open("query", expr="bad")["Now"] == "error" and "parse error: bad" in page.panel("Now")


def test_reason_of_a_missing_answer_is_shown(page: BoardPage, prometheus: Prometheus) -> None:
    prometheus.broken = "prometheus does not listen on the node"
    page.page.goto(page.address)
    page.page.get_by_role("alert").wait_for(timeout=20_000)
    assert "login0: prometheus does not listen on the node" in page.page.get_by_role("alert").inner_text()


@pytest.mark.parametrize(("width", "dark"), [(1400, True), (420, False)], ids=["dark", "phone"])
def test_page_fits_its_window(browser: Browser, page: BoardPage, width: int, dark: bool) -> None:
    other = BoardPage(browser, page.address, width=width, dark=dark)
    other.open("fleet")
    assert other.page.evaluate("document.documentElement.scrollWidth") <= width
    other.page.close()
