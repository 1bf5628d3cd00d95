"""What a refresh sees of a node that sleeps, has slept, or was started by somebody else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rackwright.handover import paths
from rackwright.provider import lab_node
from rackwright.provider.drivers.podman import Container
from rackwright.provider.lab_node import Node
from rackwright.provider.resource import Made, Operation, State


async def said(_: str) -> None:
    """Progress that nobody reads."""


OPERATION = Operation("urn", "lab", "worker0", preview=False, status=said, info=said, warn=said)
BEFORE, AFTER = "2026-11-21T16:00:00.000Z", "2026-11-21T17:00:00.000Z"
RECORDED = f"{'1' * 12}@{BEFORE[:23]}"
INPUTS: dict[str, Any] = {"stack": "lab", "name": "lab-worker0", "hostname": "worker0", "status": "running"}


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The container, to be changed; as recorded at first."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    for mark in (paths.asleep("lab", "worker0"), paths.woken("lab", "worker0")):
        mark.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"id": "1" * 64, "running": True, "paused": False, "started_at": BEFORE}

    async def inspect(name: str) -> Container:
        return Container(name=name, image="older", labels={}, **found)

    monkeypatch.setattr(lab_node, "inspect", inspect)
    return found


def read() -> tuple[str, str]:
    """Status and incarnation as a refresh has them."""
    made = asyncio.run(Node().read(OPERATION, State("lab-worker0", INPUTS, {**INPUTS, "incarnation": RECORDED})))
    assert isinstance(made, Made) and made.inputs is not None
    assert made.outputs["status"] == made.inputs["status"]
    return made.outputs["status"], made.outputs["incarnation"]


def test_a_node_that_sleeps_is_as_recorded(live: dict[str, Any]) -> None:
    live["running"] = False
    paths.asleep("lab", "worker0").touch()
    assert read() == ("running", RECORDED)


def test_what_it_was_made_from_is_told_by_the_container(live: dict[str, Any]) -> None:
    """The declared image may be a newer one: that is for new nodes."""
    live["started_at"] = AFTER
    made = asyncio.run(Node().read(OPERATION, State("lab-worker0", INPUTS, {**INPUTS, "image": "new", "incarnation": RECORDED})))
    assert made is not None and made.outputs["image"] == "older"


def test_a_node_that_was_stopped_by_somebody_is_stopped(live: dict[str, Any]) -> None:
    live["running"] = False
    assert read() == ("stopped", RECORDED)


def test_a_node_that_was_woken_lives_on(live: dict[str, Any]) -> None:
    live["started_at"] = AFTER
    paths.woken("lab", "worker0").write_text(f"{'1' * 12}@{AFTER[:23]}")
    assert read() == ("running", RECORDED)


def test_a_node_that_is_just_being_woken_lives_on(live: dict[str, Any]) -> None:
    live["started_at"] = AFTER
    paths.asleep("lab", "worker0").touch()
    assert read() == ("running", RECORDED)


@pytest.mark.parametrize("slept", [True, False])
def test_a_node_that_somebody_else_started_is_a_new_life(live: dict[str, Any], slept: bool) -> None:
    live["started_at"] = AFTER
    if slept:
        paths.woken("lab", "worker0").write_text(RECORDED)
    assert read() == ("running", f"{'1' * 12}@{AFTER[:23]}")


def test_another_container_is_a_new_life_whatever_the_marks_say(live: dict[str, Any]) -> None:
    live["id"] = "2" * 64
    paths.asleep("lab", "worker0").touch()
    paths.woken("lab", "worker0").write_text(f"{'2' * 12}@{BEFORE[:23]}")
    assert read() == ("running", f"{'2' * 12}@{BEFORE[:23]}")
    live["running"] = False
    assert read()[0] == "stopped"


def test_a_paused_node_does_not_sleep(live: dict[str, Any]) -> None:
    live["paused"] = True
    paths.asleep("lab", "worker0").touch()
    assert read()[0] == "paused"


def test_a_node_that_goes_takes_its_marks_along(live: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one of that name is not asleep."""
    calls: list[tuple[str, ...]] = []

    async def podman(*words: str) -> None:
        calls.append(words)

    monkeypatch.setattr(lab_node, "podman", podman)
    marks = (paths.asleep("lab", "worker0"), paths.woken("lab", "worker0"))
    for mark in marks:
        mark.touch()
    asyncio.run(Node().delete(OPERATION, State("lab-worker0", INPUTS, {})))
    assert calls and not any(mark.exists() for mark in marks)
