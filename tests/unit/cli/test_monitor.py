"""`rackwright monitor`: queries, addresses, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.cli import CliResult, Run, run_cli

from rackwright.errors import UndeterminedError
from rackwright.operations.monitor import boards, query
from rackwright.operations.monitor.query import QueryResult, Series
from rackwright.operations.monitor.server import Addresses


@pytest.fixture
def monitor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def once(*arguments: str | Path) -> CliResult:
        return run_cli(monkeypatch, capsys, "monitor", *map(str, arguments))

    return once


class Session:
    """A session that ends as the test says."""

    node = "login0"
    addresses = Addresses("http://127.0.0.1:1/t/", "http://127.0.0.1:1/t/prometheus", "http://127.0.0.1:1/t/alertmanager")

    def __init__(self, ending: BaseException) -> None:
        self.ending, self.closed = ending, False

    def serve(self) -> None:
        raise self.ending


def opens(monkeypatch: pytest.MonkeyPatch, session: Session) -> list[tuple[str, int]]:
    asked: list[tuple[str, int]] = []

    @contextmanager
    def open_boards(stack: str, port: int) -> Iterator[Any]:
        asked.append((stack, port))
        try:
            yield session
        finally:
            session.closed = True

    monkeypatch.setattr(boards, "open_boards", open_boards)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return asked


def test_addresses_are_printed_until_the_interrupt(monkeypatch: pytest.MonkeyPatch, monitor: Run) -> None:
    session = Session(KeyboardInterrupt())
    asked = opens(monkeypatch, session)
    found = monitor("lab", "--port", "9999")
    assert found.code == 0 and asked == [("lab", 9999)] and session.closed
    assert found.out.splitlines() == [
        "boards        http://127.0.0.1:1/t/",
        "Prometheus    http://127.0.0.1:1/t/prometheus",
        "Alertmanager  http://127.0.0.1:1/t/alertmanager",
    ]
    assert "Press Ctrl-C" in found.err and "the tunnel to login0 is closed" in found.err


def test_lost_tunnel_is_exit_code_3(monkeypatch: pytest.MonkeyPatch, monitor: Run) -> None:
    opens(monkeypatch, Session(UndeterminedError("the tunnel is lost: x", path="login0")))
    found = monitor("lab")
    assert found.code == 3 and "login0: the tunnel is lost: x" in found.err


@pytest.mark.parametrize(
    ("series", "out", "err"),
    [((Series({"__name__": "up", "job": "node"}, ((1.0, "1"),)),), "metric  job   value\nup      node  1\n", ""), ((), "", "no series\n")],
    ids=["one", "none"],
)
def test_query_prints_a_table(monkeypatch: pytest.MonkeyPatch, monitor: Run, series: Any, out: str, err: str) -> None:
    monkeypatch.setattr(query, "query_stack", lambda stack, text: QueryResult(stack, text, "vector", series))
    assert monitor("lab", "--query", "up") == CliResult(0, out, err)


def test_query_prints_json(monkeypatch: pytest.MonkeyPatch, monitor: Run) -> None:
    monkeypatch.setattr(query, "query_stack", lambda stack, text: QueryResult(stack, text, "vector", ()))
    found = json.loads(monitor("lab", "--query", "up", "--json").out)
    assert found == {"schema": "rackwright.query/1", "stack": "lab", "query": "up", "type": "vector", "series": []}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--json",), "--json: needs --query"),
        (("--query", "up", "--port", "1234"), "--query: cannot be combined with --port"),
        (("--port", "0"), "Invalid value for '--port'"),
    ],
    ids=["json", "query", "port"],
)
def test_options_that_do_not_fit_are_refused(monitor: Run, options: tuple[str, ...], reason: str) -> None:
    found = monitor("lab", *options)
    assert found.code == 2 and reason in found.err


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("options", [(), ("--query", "up")], ids=["boards", "query"])
def test_stack_that_is_not_up_is_refused(monitor: Run, options: tuple[str, ...]) -> None:
    found = monitor("lab-monitoring", *options)
    assert found.code == 2 and "stack lab-monitoring: is not up\n  run `rackwright up lab-monitoring`" in found.err
