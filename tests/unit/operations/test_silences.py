"""Silences of nodes: which nodes, until when, and that a failure to silence stops nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from rackwright.drivers import remote_exec, ssh_connections
from rackwright.inventory.reader import Inventory, load
from rackwright.operations.monitoring import silences
from rackwright.operations.monitoring.silences import of_removal, out_silences, silence_out_nodes, silenced

from .conftest import INVENTORY

MONITORING = {"server": "login0", "interval_s": 15, "targets": [{"job": "alertmanager", "node": "login0", "port": 9093}], "nodes": []}
NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
OUT = {
    "worker2": {"reason": "bad DIMM", "until": "2026-11-28"},
    "worker3": {"reason": None, "until": None},
    "worker4": {"reason": "overdue", "until": "2026-11-26"},
}


class Server:
    """The node of Alertmanager: the wanted silences in their order, and why it does not answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[Any]]] = []
        self.unreachable = ""

    async def connect_all(self, stack: str, names: list[str], *, within: float) -> dict[str, str]:
        return dict.fromkeys(names, self.unreachable) if self.unreachable else {}

    async def run_on_nodes(
        self, stack: str, program: str, requests: Mapping[str, Any], sudo: Mapping[str, bool], *, target: str, limit: float
    ) -> tuple[dict[str, Any], dict[str, str]]:
        (request,) = requests.values()
        assert (program, request["host"], request["port"], request["linger_s"]) == ("alert_silences", "login0", 9093, 40)
        self.asked.append((request["owner"], request["wanted"]))
        return {}, {}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()
    monkeypatch.setattr(ssh_connections, "connect_all", found.connect_all)
    monkeypatch.setattr(remote_exec, "run_on_nodes", found.run_on_nodes)
    return found


def declared(monitoring: Mapping[str, Any] | None = MONITORING, out: Mapping[str, Any] | None = None) -> Inventory:
    return replace(load(INVENTORY), monitoring=monitoring, out=out or {})


async def roll(said: list[str], *, fails: bool = False) -> None:
    async def say(text: str) -> None:
        said.append(text)

    async with silenced(declared(), ["worker0", "worker1"], "rolling update", 600, say):
        said.append("updating")
        if fails:
            raise RuntimeError("stopped")


@pytest.mark.parametrize("fails", [False, True])
def test_nodes_are_silenced_inside_the_context(server: Server, fails: bool) -> None:
    said: list[str] = []
    if fails:
        with pytest.raises(RuntimeError):
            asyncio.run(roll(said, fails=True))
    else:
        asyncio.run(roll(said))
    comment = "rackwright: rolling update (worker0, worker1)"
    wanted = [{"nodes": ["worker0", "worker1"], "comment": comment, "seconds": 600}]
    assert server.asked == [("rolling-update", wanted), ("rolling-update", [])]
    assert said == ["updating"]


def test_rolling_update_within_a_removal_leaves_its_silence(server: Server) -> None:
    """`up` removes nodes and then rolls what its phases left: each ends its own silence only."""

    async def remove() -> None:
        async with of_removal(declared(), ["worker2"], 300, lambda _: asyncio.sleep(0)):
            await roll([])

    asyncio.run(remove())
    assert [(owner, bool(wanted)) for owner, wanted in server.asked] == [
        ("removal", True),
        ("rolling-update", True),
        ("rolling-update", False),
        ("removal", False),
    ]


def test_failure_to_silence_is_said_and_stops_nothing(server: Server) -> None:
    server.unreachable = "no response over SSH"
    said: list[str] = []
    asyncio.run(roll(said))
    failure = "login0: cannot change silences of alerts: no response over SSH"
    assert said == [failure, "updating", failure]


def test_out_nodes_are_silenced_until_their_last_day_ends() -> None:
    found = {one["nodes"][0]: (one["comment"], one["seconds"]) for one in out_silences(declared(out=OUT), NOW)}
    assert set(found) == {"worker2", "worker3"}, "an overdue node is silenced no more"
    assert found["worker2"] == ("rackwright: worker2 is out: bad DIMM", pytest.approx(36 * 3600, abs=1))
    assert found["worker3"] == ("rackwright: worker3 is out: no reason given", 7 * 86400)


def test_silences_of_returned_nodes_end(server: Server) -> None:
    assert asyncio.run(silence_out_nodes(declared(), NOW)) == []
    assert server.asked == [("out", [])]


@pytest.mark.parametrize("monitoring", [None, {**MONITORING, "server": None}], ids=["no-monitoring", "no-own-alertmanager"])
def test_stack_without_alertmanager_is_not_asked(server: Server, monitoring: Mapping[str, Any] | None) -> None:
    assert asyncio.run(silences.set_silences(declared(monitoring), "out", [])) == []
    assert server.asked == []
