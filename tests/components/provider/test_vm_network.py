"""The resource of a network between virtual machines, with the real process: started, faulty, lost, changed, renewed, deleted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.killing import kill

from rackwright.drivers.vm import sweep
from rackwright.drivers.vm.network import client
from rackwright.drivers.vm.network.topology import Cable, Port, Switch, Topology
from rackwright.inventory import paths
from rackwright.provider.protocol.property_values import Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext
from rackwright.provider.vm.network import Network

PORT = Port(name="n.eth0", switch="leaf", mac="02:00:00:00:00:01", peer="../nodes/n/eth0.sock")
SWITCHES = {"leaf": Switch(mtu=1500), "spine": Switch(mtu=1500)}


async def ignore(line: str) -> None:
    """Drop a progress message."""


OPERATION = RequestContext("urn", "small", "network", preview=False, status=ignore, info=ignore, warn=ignore)


def text(*cables: Cable) -> str:
    """Return a topology."""
    return json.dumps(Topology(switches=SWITCHES, ports=(PORT,), cables=cables).as_data(), sort_keys=True)


CABLE = Cable(name="leaf-spine-1", a="leaf", b="spine")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedState]:
    """Yield a running network; stop it."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "state"))
    inputs = Network().apply_defaults({"stack": "small", "topology": text(CABLE), "program": "1"})
    yield recorded(asyncio.run(Network().create(OPERATION, inputs)), inputs)
    sweep.remove_all(paths.machines("small"))


def recorded(live: LiveResource, inputs: Properties) -> RecordedState:
    """Return what the engine records of a live resource."""
    return RecordedState(live.id, inputs, live.outputs)


def pid_of(state: RecordedState) -> int:
    """Return the process of the network."""
    found = client.running(Path(state.id))
    assert found is not None
    return found.pid


def changes(state: RecordedState, news: Properties) -> set[str]:
    """Return what an `up` without a refresh would change."""
    return set(asyncio.run(Network().add_live_changes("small", state, Network().diff(state, news))).changes)


def status(state: RecordedState) -> Any:
    """Return the status that a refresh reads."""
    live = asyncio.run(Network().read(OPERATION, state))
    return live and live.outputs["status"]


def test_running_network_needs_no_change(state: RecordedState) -> None:
    assert changes(state, state.inputs) == set() and status(state) == "running"
    live = asyncio.run(Network().read(OPERATION, state))
    assert live and live.outputs["revision"] == state.outputs["revision"]


def test_pulled_cable_is_seen_without_a_refresh_and_plugged_in_again(state: RecordedState) -> None:
    client.set_link(Path(state.id), "leaf-spine-1", up=False)
    assert changes(state, state.inputs) == {"status"}
    assert status(state) == "leaf-spine-1: up False, declared True"
    repaired = asyncio.run(Network().update(OPERATION, state, state.inputs))
    assert changes(state, state.inputs) == set() and status(state) == "running"
    assert repaired.outputs["revision"] != state.outputs["revision"], "the checks run again after a repair"


def test_killed_network_is_seen_without_a_refresh_and_started_again(state: RecordedState) -> None:
    kill(pid_of(state))
    assert changes(state, state.inputs) == {"status"} and status(state) == "stopped"
    asyncio.run(Network().update(OPERATION, state, state.inputs))
    assert status(state) == "running"


def test_changed_topology_keeps_the_process(state: RecordedState) -> None:
    before = pid_of(state)
    asyncio.run(Network().update(OPERATION, state, {**state.inputs, "topology": text()}))
    assert pid_of(state) == before and client.status(Path(state.id))["cables"] in ([], {})


def test_newer_code_gets_a_new_process(state: RecordedState) -> None:
    before = pid_of(state)
    asyncio.run(Network().update(OPERATION, state, {**state.inputs, "program": "2"}))
    assert pid_of(state) != before


def test_invalid_topology_is_refused_before_anything_is_created() -> None:
    found = Network().check(
        {"stack": "small", "program": "1", "topology": json.dumps({"schema": "rackwright.vm-network/1", "switches": 3})}
    )
    assert [failure.property for failure in found] == ["topology"]


def test_deletion_stops_the_process(state: RecordedState) -> None:
    asyncio.run(Network().delete(OPERATION, state))
    assert client.running(Path(state.id)) is None
