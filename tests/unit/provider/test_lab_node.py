"""What a refresh sees of a node that sleeps, has slept, or was started by another process."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rackwright.drivers.podman import Container
from rackwright.inventory import paths
from rackwright.provider.lab import live_nodes, node, node_drift, power
from rackwright.provider.lab.node import Node
from rackwright.provider.lab.power import Agent
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext


async def said(_: str) -> None:
    """Progress that is discarded."""


OPERATION = RequestContext("urn", "lab", "worker0", preview=False, status=said, info=said, warn=said)
BEFORE, AFTER = "2026-11-21T16:00:00.000Z", "2026-11-21T17:00:00.000Z"
RECORDED = f"{'1' * 12}@{BEFORE[:23]}"
INPUTS: dict[str, Any] = {"stack": "lab", "name": "lab-worker0", "hostname": "worker0", "status": "running"}


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The container, to be changed; as recorded at first."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    for mark in (paths.suspended_file("lab", "worker0"), paths.resumed_file("lab", "worker0")):
        mark.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"id": "1" * 64, "running": True, "paused": False, "started_at": BEFORE}

    async def inspect(name: str) -> Container:
        return Container(name=name, image="older", labels={}, **found)

    monkeypatch.setattr(node, "inspect", inspect)
    return found


def read() -> tuple[str, str]:
    """Status and instance_uid as a refresh has them."""
    made = asyncio.run(Node().read(OPERATION, RecordedState("lab-worker0", INPUTS, {**INPUTS, "image": "older", "instance_uid": RECORDED})))
    assert isinstance(made, LiveResource) and made.inputs is not None
    assert made.outputs["status"] == made.inputs["status"]
    return made.outputs["status"], made.outputs["instance_uid"]


def test_a_node_that_sleeps_is_as_recorded(live: dict[str, Any]) -> None:
    live["running"] = False
    paths.suspended_file("lab", "worker0").touch()
    assert read() == ("running", RECORDED)


def test_what_it_was_made_from_is_told_by_the_container(live: dict[str, Any]) -> None:
    """The declared image may be a newer one: that is for new nodes."""
    live["started_at"] = AFTER
    made = asyncio.run(Node().read(OPERATION, RecordedState("lab-worker0", INPUTS, {**INPUTS, "image": "new", "instance_uid": RECORDED})))
    assert made is not None and made.outputs["image"] == "older"


def test_a_node_that_was_stopped_by_somebody_is_stopped(live: dict[str, Any]) -> None:
    live["running"] = False
    assert read() == ("stopped", RECORDED)


def test_a_node_that_was_woken_lives_on(live: dict[str, Any]) -> None:
    live["started_at"] = AFTER
    paths.resumed_file("lab", "worker0").write_text(f"{'1' * 12}@{AFTER[:23]}")
    assert read() == ("running", RECORDED)


def test_a_node_that_is_just_being_woken_lives_on(live: dict[str, Any]) -> None:
    live["started_at"] = AFTER
    paths.suspended_file("lab", "worker0").touch()
    assert read() == ("running", RECORDED)


@pytest.mark.parametrize("slept", [True, False])
def test_a_node_that_somebody_else_started_is_a_new_life(live: dict[str, Any], slept: bool) -> None:
    live["started_at"] = AFTER
    if slept:
        paths.resumed_file("lab", "worker0").write_text(RECORDED)
    assert read() == ("running", f"{'1' * 12}@{AFTER[:23]}")


def test_another_container_is_a_new_life_whatever_the_marks_say(live: dict[str, Any]) -> None:
    live["id"] = "2" * 64
    paths.suspended_file("lab", "worker0").touch()
    paths.resumed_file("lab", "worker0").write_text(f"{'2' * 12}@{BEFORE[:23]}")
    assert read() == ("running", f"{'2' * 12}@{BEFORE[:23]}")
    live["running"] = False
    assert read()[0] == "stopped"


def test_a_paused_node_does_not_sleep(live: dict[str, Any]) -> None:
    live["paused"] = True
    paths.suspended_file("lab", "worker0").touch()
    assert read()[0] == "paused"


def test_a_node_that_goes_takes_its_marks_along(live: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one of that name is not asleep."""
    calls: list[tuple[str, ...]] = []

    async def podman(*words: str) -> None:
        calls.append(words)

    monkeypatch.setattr(node, "podman", podman)
    marks = (paths.suspended_file("lab", "worker0"), paths.resumed_file("lab", "worker0"))
    for mark in marks:
        mark.touch()
    asyncio.run(Node().delete(OPERATION, RecordedState("lab-worker0", INPUTS, {})))
    assert calls and not any(mark.exists() for mark in marks)


@pytest.fixture
def together(live: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The container, also as part of the stack's inspection."""

    async def nodes_now(stack: str) -> dict[str, Container]:
        return {} if live.get("gone") else {"lab-worker0": Container(name="lab-worker0", image="older", labels={}, **live)}

    async def inspect(name: str) -> Container | None:
        return (await nodes_now("lab")).get(name)

    monkeypatch.setattr(node, "nodes_now", nodes_now)
    monkeypatch.setattr(node, "inspect", inspect)
    return live


def live_changes() -> list[str]:
    """What an `up` without a refresh changes of a node whose inputs are unchanged."""
    state = RecordedState("lab-worker0", INPUTS, {**INPUTS, "image": "older", "instance_uid": RECORDED})
    return [*asyncio.run(Node().add_live_changes("lab", state, Node().diff(state, INPUTS))).changes]


def test_running_node_has_no_live_change(together: dict[str, Any]) -> None:
    assert live_changes() == []


@pytest.mark.parametrize("now", [{"running": False}, {"paused": True}, {"started_at": AFTER}, {"gone": True}, {"id": "2" * 64}])
def test_up_repairs_node_after_reboot(together: dict[str, Any], now: dict[str, Any]) -> None:
    """Stopped by a reboot; started again by hand after it; removed; another container under its name."""
    together.update(now)
    assert live_changes() == ["status"]


@pytest.mark.parametrize(("agent", "changes"), [(Agent(1, 1), []), (None, ["status"])])
def test_up_leaves_node_asleep_while_agent_lives(
    together: dict[str, Any], monkeypatch: pytest.MonkeyPatch, agent: Agent | None, changes: list[str]
) -> None:
    """A reboot ends the agent, and slurmctld may not know any more that the node sleeps: nothing would ever wake it."""
    monkeypatch.setattr(power, "running_agent", lambda stack: agent)
    together["running"] = False
    paths.suspended_file("lab", "worker0").touch()
    assert live_changes() == changes


def test_up_accepts_node_that_slurm_woke(together: dict[str, Any]) -> None:
    together["started_at"] = AFTER
    paths.resumed_file("lab", "worker0").write_text(f"{'1' * 12}@{AFTER[:23]}")
    assert live_changes() == []


def test_stack_is_inspected_once_per_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine compares nodes one after another; podman is called once for all of them."""
    calls, clock = [], [0.0]

    async def inspect_stack(stack: str) -> dict[str, Container]:
        calls.append(stack)
        return {}

    monkeypatch.setattr(live_nodes, "inspect_stack", inspect_stack)

    async def compare() -> None:
        inspections = live_nodes.Inspections(lambda: clock[0])
        for seconds in (0.0, 0.5, 3.0):
            clock[0] = seconds
            await asyncio.gather(inspections.now("lab"), inspections.now("lab"))

    asyncio.run(compare())
    assert calls == ["lab", "lab"]


MADE: dict[str, Any] = {**INPUTS, "network": "lab", "address": "10.77.0.11", "host_public_key": "", "image": "older"}


def looked() -> LiveResource:
    """A refresh of a node that was made on a network, with a key."""
    found = asyncio.run(Node().read(OPERATION, RecordedState("lab-worker0", MADE, {**MADE, "instance_uid": RECORDED})))
    assert found is not None and found.inputs is not None
    return found


def differs(found: LiveResource) -> dict[str, Any]:
    """What a refresh shows."""
    assert found.inputs is not None
    return {name: value for name, value in found.inputs.items() if MADE.get(name) != value}


def test_a_node_on_its_network_with_its_key_is_as_made(live: dict[str, Any], shown: Path) -> None:
    live["networks"] = {"lab": "10.77.0.11"}
    assert differs(looked()) == {}


@pytest.mark.parametrize(
    ("networks", "seen"),
    [
        ({"lab": "10.77.0.99"}, {"address": "10.77.0.99"}),
        ({"other": "10.9.0.2"}, {"network": "other", "address": "none"}),
        ({"lab": "10.77.0.11", "other": "10.9.0.2"}, {"network": "lab, other"}),
        ({}, {"network": "none", "address": "none"}),
    ],
)
def test_a_node_that_was_moved_shows_where_it_is(live: dict[str, Any], shown: Path, networks: dict[str, str], seen: dict[str, str]) -> None:
    live["networks"] = networks
    found = looked()
    assert differs(found) == seen
    assert (found.outputs["network"], found.outputs["address"]) == ("lab", "10.77.0.11"), "what it was made with stays on record"


def test_a_node_with_another_host_key_shows_it(live: dict[str, Any], shown: Path) -> None:
    live["networks"] = {"lab": "10.77.0.11"}
    other = made(shown, "ed25519")
    assert differs(looked()) == {"host_public_key": other}
    shown.write_text("no key at all")
    assert differs(looked()) == {"host_public_key": "none"}


def test_a_stopped_node_is_only_stopped(live: dict[str, Any], shown: Path) -> None:
    live.update(networks={}, running=False)
    assert differs(looked()) == {"status": "stopped"}


def test_another_image_under_its_name_is_no_node_of_ours(live: dict[str, Any], shown: Path) -> None:
    live.update(id="2" * 64)
    state = RecordedState("lab-worker0", MADE, {**MADE, "image": "recorded", "instance_uid": RECORDED})
    found = asyncio.run(Node().read(OPERATION, state))
    assert found is not None
    assert differs(found) == {"status": "replaced"}
    assert found.outputs["image"] == "recorded", "so that the next `up` still recognises it as unmanaged"


def test_what_moved_is_brought_back_in_place_and_what_is_wanted_otherwise_is_made_anew() -> None:
    wanted = {**MADE, "status": "running"}
    moved = {**wanted, "network": "other", "address": "none", "host_public_key": "ssh-ed25519 BBBB"}
    assert Node().diff(RecordedState("lab-worker0", moved, wanted), wanted).replaces == []
    assert set(Node().diff(RecordedState("lab-worker0", moved, wanted), wanted).changes) == {"network", "address", "host_public_key"}
    assert Node().diff(RecordedState("lab-worker0", wanted, wanted), {**wanted, "address": "10.77.0.12"}).replaces == ["address"]


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the node's host key, to be changed; as recorded at first."""
    file = tmp_path / node_drift.KEY_FILE.lstrip("/")
    file.parent.mkdir(parents=True)
    monkeypatch.setattr(node_drift, "_files", lambda found: tmp_path)
    MADE["host_public_key"] = made(file, "ed25519") + " worker0.lab"
    return file


def made(file: Path, kind: str) -> str:
    """A new pair of keys; the public half."""
    for old in (file, file.with_name(f"{file.name}.pub")):
        old.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", str(file)], check=True)
    return file.with_name(f"{file.name}.pub").read_text().strip()


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_the_public_half_of_a_key_is_read_without_opening_it(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "key"
    public = made(file, kind)
    assert node_drift.public_half(file.read_text()) == public


@pytest.mark.parametrize("cut", [40, 90, 120])
def test_what_is_no_whole_key_has_no_public_half(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "key"
    made(file, "ed25519")
    with pytest.raises(ValueError):
        node_drift.public_half(file.read_text()[:cut] + "\n-----END OPENSSH PRIVATE KEY-----\n")
