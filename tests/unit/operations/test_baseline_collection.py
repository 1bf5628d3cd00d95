"""A node that is late while other scans load it has a second attempt, alone and with more time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rackwright.drivers import remote_exec, ssh_connections
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.drift import host_baseline
from rackwright.operations.drift.host_baseline import BaselineStates

STATE = {"error": {}, "addresses": {"eth0 192.0.2.1/24": ""}}
LATE = "the program did not end within 40 s"
Attempt = tuple[list[str], float]


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[Attempt]:
    """Return the list of attempts: nodes and time limit. worker1 is late while it has 40 s; worker2 always fails."""
    made: list[Attempt] = []

    async def run_on_nodes(
        stack: str, program: str, requests: Mapping[str, Any], sudo: Mapping[str, bool], *, target: str, limit: float
    ) -> tuple[dict[str, Any], dict[str, str]]:
        made.append((list(requests), limit))
        failed = {"worker1": LATE} if limit <= remote_exec.LONGEST else {}
        failed |= {"worker2": "python3 ended with 127"}
        failed = {name: why for name, why in failed.items() if name in requests}
        return {name: STATE for name in requests if name not in failed}, failed

    async def connect_all(stack: str, names: Iterable[str], *, within: float) -> dict[str, str]:
        return {}

    @asynccontextmanager
    async def awake(*_: Any) -> Any:
        yield

    monkeypatch.setattr(remote_exec, "run_on_nodes", run_on_nodes)
    monkeypatch.setattr(ssh_connections, "connect_all", connect_all)
    monkeypatch.setattr(host_baseline, "wake_nodes", awake)
    monkeypatch.setattr("rackwright.operations.drift.host_baseline.PowerSavingNodes.of", lambda *_: ())
    return made


def collected(*names: str) -> BaselineStates:
    """Return the states of nodes, after the second attempt."""
    nodes = {name: {"roles": ["worker"]} for name in names}
    declared = SimpleNamespace(nodes=nodes, cluster={"scheduler": {}}, needs_sudo=lambda _: False, target="vm", simulated=())
    running = cast(RunningStack, SimpleNamespace(name="lab-vm", inventory=declared))

    async def run() -> BaselineStates:
        first = await host_baseline.collect(running)
        return await host_baseline.collect(running, first) if first.late else first

    return asyncio.run(run())


def test_late_node_alone_has_a_second_attempt_with_more_time(attempts: list[Attempt]) -> None:
    found = collected("worker0", "worker1", "worker2")
    assert attempts == [(["worker0", "worker1", "worker2"], 40.0), (["worker1"], 120.0)]
    assert sorted(found.nodes) == ["worker0", "worker1"]
    assert found.unreachable == (("worker2", "cannot collect its state: python3 ended with 127"),)


def test_nodes_in_time_have_one_attempt(attempts: list[Attempt]) -> None:
    collected("worker0", "worker2")
    assert len(attempts) == 1


def test_node_that_is_late_twice_is_unknown(attempts: list[Attempt], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_baseline, "_SECOND_ATTEMPT", 30.0)
    assert collected("worker0", "worker1").unreachable == (("worker1", f"cannot collect its state: {LATE}"),)
