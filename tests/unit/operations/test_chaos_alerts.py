"""Alerts that an injected failure causes: which of those of Alertmanager count, and what is said where none can be read."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackwright.cli.chaos_options import parse_hold
from rackwright.cli.render.chaos import run_text
from rackwright.drivers import remote_exec
from rackwright.errors import InputError
from rackwright.inventory import Host, inventory, paths
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.chaos.alerts import AlertReader
from rackwright.operations.chaos.injection import Injector
from rackwright.operations.chaos.modes import Mode
from rackwright.operations.chaos.schedule import ScheduledEvent
from rackwright.operations.stack import load_plan
from rackwright.report.chaos import EventRecord

NOW = 1000.0
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the state folder of two stacks as `up` leaves it."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RACKWRIGHT_HOME", str(folder))
        for stack in ("lab-monitoring", "lab-train"):
            plan = load_plan(stack, lambda _finding: None)
            paths.prepare(stack)
            handed = inventory(plan, {node.name: Host(node.name, node.address, KEY, "1") for node in plan.nodes})
            paths.inventory(stack).write_text(yaml.safe_dump(handed))
    return folder


@pytest.fixture(autouse=True)
def state(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use this state, and a clock that stands still."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(prepared))
    monkeypatch.setattr(time, "time", lambda: NOW)


def reader(monkeypatch: pytest.MonkeyPatch, *rows: dict[str, Any], lost: str = "") -> AlertReader:
    """Return a reader of lab-monitoring whose Alertmanager has these alerts, or does not answer."""

    async def answer(_stack: str, program: str, requests: dict[str, Any], _sudo: Any, **_: Any) -> tuple[Any, Any]:
        ((node, request),) = requests.items()
        assert (program, node, request["topic"], request["host"]) == ("monitoring_api", "login0", "alerts", "login0")
        assert request["ports"]["alertmanager"]
        return ({}, {node: lost}) if lost else ({node: list(rows)}, {})

    monkeypatch.setattr(remote_exec, "run_on_nodes", answer)
    return AlertReader(RunningStack.of("lab-monitoring"), 1)


def alert(name: str, age: float, **labels: str) -> dict[str, Any]:
    """Return an alert that began `age` seconds ago."""
    return {"labels": {"alertname": name, **labels}, "summary": f"{name} happened", "age_s": age}


def event() -> EventRecord:
    """Return an event that failed worker1 100 s ago."""
    return EventRecord("e-1", 1, 1, "node_kill", "worker1", 0.0, injected=NOW - 100)


@pytest.mark.parametrize(
    ("row", "counts"),
    [
        (alert("SlurmNodeDown", 40, node="worker1"), True),
        (alert("TargetDown", 40, instance="worker1:9100"), True),
        (alert("TargetDown", 40, instance="worker10"), True),  # no node of this stack
        (alert("SlurmUnanswered", 40), True),
        (alert("TargetDown", 40, instance="worker0"), False),
        (alert("TargetDown", 140, instance="worker1"), False),  # began before the failure
        (alert("Watchdog", 40), False),
    ],
)
def test_alert_counts_if_it_began_later_and_names_no_other_node(row: dict[str, Any], counts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    record = event()
    asyncio.run(reader(monkeypatch, row).read_into(record))
    assert [one["by"] for one in record.detected_by] == ([f"alert {row['labels']['alertname']}"] if counts else [])
    if counts:
        (one,) = record.detected_by
        assert one["seconds"] == 60 and "happened" in one["detail"]


def test_each_alert_counts_once_and_names_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    record = event()
    read = reader(monkeypatch, alert("TargetDown", 50, instance="worker1"), alert("SlurmNodeDown", 20, node="worker1"))
    for _ in range(2):
        asyncio.run(read.read_into(record))
    assert [one["by"] for one in record.detected_by] == ["alert TargetDown", "alert SlurmNodeDown"]
    assert record.detected_by[0]["detail"] == "worker1: TargetDown happened"
    assert read.summary() == {"server": "login0", "answers": 2, "problem": None}


def test_unanswered_request_is_no_absence_of_alerts(monkeypatch: pytest.MonkeyPatch) -> None:
    record, read = event(), reader(monkeypatch, lost="no response within 30 s")
    asyncio.run(read.read_into(record))
    assert record.detected_by == [] and read.summary() == {"server": "login0", "answers": 0, "problem": "login0: no response within 30 s"}


def test_stack_without_alertmanager_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("a node was asked")

    monkeypatch.setattr(remote_exec, "run_on_nodes", refuse)
    read = AlertReader(RunningStack.of("lab-train"), 1)
    asyncio.run(read.read_into(event()))
    assert read.summary() == {"server": None, "answers": 0, "problem": None}


@pytest.mark.parametrize(
    ("alerts", "said"),
    [
        ({"server": None, "answers": 0, "problem": None}, "alerts: not read, the stack has no Alertmanager of its own"),
        ({"server": "login0", "answers": 3, "problem": None}, "alerts: read from login0"),
        ({"server": "login0", "answers": 3, "problem": "no response"}, "the last one was not: no response"),
    ],
)
def test_result_says_whether_alerts_were_read(alerts: dict[str, Any], said: str) -> None:
    score = {"injected": 0, "events": 0, "undone": 0, "detected": 0, "median_detection_s": None, "recovered": 0, "with_training": 0}
    run: dict[str, Any] = {"run": "r", "stack": "s", "mode": "random", "seed": 1, "evidence": [], "events": [], "alerts": alerts}
    verdict = {"result": "unknown", "reason": "no failure was injected"}
    document = {**run, "verdict": verdict, "score": {**score, "steps_lost": 0, "seconds_lost": 0.0}}
    assert said in run_text(document)


@pytest.mark.parametrize(("mode", "hold", "seconds"), [("node_kill", 300, 300), ("node_kill", None, 20), ("rank_kill", 300, None)])
def test_hold_replaces_duration_of_lasting_failures(mode: str, hold: int | None, seconds: int | None) -> None:
    injector = Injector(RunningStack.of("lab-train"), "alice", "login0", "", 1, hold)
    assert injector.params(ScheduledEvent(1, Mode(mode), "worker1", 0.0, 0)).get("seconds") == seconds


@pytest.mark.parametrize(
    ("mode", "text", "cause"),
    [("rank_kill", "5m", "has no duration"), ("node_kill", "2h", "too long"), ("node_kill", "0s", "too short"), ("random", "soon", "soon")],
)
def test_hold_is_refused_with_reason(mode: str, text: str, cause: str) -> None:
    with pytest.raises(InputError, match=cause):
        parse_hold(mode, text)
    assert parse_hold("random", "5m") == 300 and parse_hold("rank_kill", None) is None
