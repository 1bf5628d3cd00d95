"""Publication of results: to which node, what is said about a failure, and that the verdict does not depend on it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from support.results import acceptance, report

from rackwright.drivers import remote_exec, ssh_connections
from rackwright.inventory import paths
from rackwright.inventory.reader import Inventory, load
from rackwright.operations.monitoring import publication
from rackwright.operations.monitoring.publication import publish, publish_acceptance, results_node

from .conftest import INVENTORY

MONITORING = {
    "server": "login0",
    "interval_s": 15,
    "targets": [{"job": "alertmanager", "node": "login0", "port": 9093}],
    "nodes": [{"name": "worker0"}, {"name": "login0"}],
}


class Node:
    """The node that serves results: what it was sent, and why it cannot be reached or cannot write."""

    def __init__(self) -> None:
        self.sent: dict[str, Any] = {}
        self.unreachable, self.refused = "", ""

    async def connect_all(self, stack: str, names: list[str], *, within: float) -> dict[str, str]:
        return dict.fromkeys(names, self.unreachable) if self.unreachable else {}

    async def run_on_nodes(
        self, stack: str, program: str, requests: Mapping[str, Any], sudo: Mapping[str, bool], *, target: str, limit: float
    ) -> tuple[dict[str, Any], dict[str, str]]:
        if self.refused:
            return {}, dict.fromkeys(requests, self.refused)
        if program == "alert_silences":
            return {}, {}
        assert program == "result_metrics"
        self.sent |= {name: request["files"] for name, request in requests.items()}
        return {}, {}


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    found = Node()
    monkeypatch.setattr(ssh_connections, "connect_all", found.connect_all)
    monkeypatch.setattr(remote_exec, "run_on_nodes", found.run_on_nodes)
    return found


def declared(monitoring: Mapping[str, Any] | None = MONITORING) -> Inventory:
    return replace(load(INVENTORY), monitoring=monitoring)


@pytest.mark.parametrize(
    ("monitoring", "serves"),
    [
        pytest.param(None, None, id="no-monitoring"),
        pytest.param(MONITORING, "login0", id="server"),
        pytest.param({**MONITORING, "server": None}, "worker0", id="exporters-only"),
    ],
)
def test_results_are_served_by_monitoring_node(monitoring: Mapping[str, Any] | None, serves: str | None) -> None:
    assert results_node(declared(monitoring)) == serves


def test_results_are_written_to_node(node: Node) -> None:
    assert asyncio.run(publish(declared(), {"verify": "up 1"})) == []
    assert node.sent == {"login0": {"verify": "up 1"}}


@pytest.mark.parametrize("renews", [True, False])
def test_silences_are_renewed_on_request(node: Node, monkeypatch: pytest.MonkeyPatch, renews: bool) -> None:
    asked: list[str] = []

    async def silence(declared: Inventory) -> list[str]:
        asked.append(declared.stack)
        return []

    monkeypatch.setattr(publication.silences, "silence_out_nodes", silence)
    assert asyncio.run(publish(declared(), {"chaos": "up 1"}, renew_silences=renews)) == []
    assert (len(asked), node.sent) == (int(renews), {"login0": {"chaos": "up 1"}})


def test_stack_without_monitoring_publishes_nothing(node: Node) -> None:
    assert asyncio.run(publish(declared(None), {"verify": "up 1"})) == []
    assert node.sent == {}


@pytest.mark.parametrize(
    ("unreachable", "refused", "why"),
    [("no response over SSH", "", "no response over SSH"), ("", "No space left on device", "No space left on device")],
)
def test_failure_names_node_and_reason(node: Node, unreachable: str, refused: str, why: str) -> None:
    node.unreachable, node.refused = unreachable, refused
    assert asyncio.run(publish(declared(), {"verify": "up 1"})) == [f"login0: cannot write the metrics of this run (verify): {why}"]


def test_inventory_that_cannot_be_read_is_a_failure_to_publish(lab: str) -> None:
    paths.inventory(lab).write_text("all: {")
    (said,) = asyncio.run(publish_acceptance(paths.inventory(lab), acceptance(report())))
    assert said.startswith("cannot write the metrics of this run: ") and "invalid inventory" in said


def test_results_of_selected_nodes_are_not_published(lab: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would read like those of the cluster."""

    async def refuse(*_: object) -> list[str]:
        raise AssertionError("published")

    monkeypatch.setattr(publication, "publish", refuse)
    partial = report(not_run=({"id": "gpu", "reason": "nodes", "detail": ""},))
    assert asyncio.run(publication.publish_verification(paths.inventory(lab), partial)) == []
