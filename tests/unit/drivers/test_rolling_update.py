"""The order of a roll: the canary, then so many at a time, and nothing after the first failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rackwright.drivers import ansible, rolling_update
from rackwright.drivers.rolling_update import RollingUpdate, RollingUpdateResult

STEPS = ["drain-nodes.yml", "site.yml", "resume-nodes.yml"]


async def said(_: str) -> None:
    """Progress that is discarded."""


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str], list[str], bool]]:
    """Playbooks in their order, each with the nodes that are rolled, its limit, and whether they are rebooted."""
    found: list[tuple[str, list[str], list[str], bool]] = []

    async def play(_: Path, playbook: str, *, values: dict[str, Any], limit: Sequence[str], **__: object) -> ansible.PlaybookResult:
        found.append((playbook, values["nodes_in_maintenance"], list(limit), values["roll_reboot"]))
        bad = ("w2" in values["nodes_in_maintenance"] and playbook == "resume-nodes.yml") or (
            "busy" in values["nodes_in_maintenance"] and playbook == "drain-nodes.yml"
        )
        failed = [
            ansible.TaskResult(
                values["nodes_in_maintenance"][0], "roll-in", "See that it is", "gpu.count_matches_plan: expected 8, found 7"
            )
        ]
        return ansible.PlaybookResult(
            failed=failed if bad else [], changed=[ansible.TaskResult("w0", "gpu", "driver")] if playbook == "site.yml" else []
        )

    monkeypatch.setattr(rolling_update.ansible, "play", play)
    return found


def run(nodes: Sequence[str], batch: int, *, reboot: bool = False) -> RollingUpdateResult:
    roll = RollingUpdate(Path("/p"), Path("/i"), Path("/s"), (), batch, reboot)
    return asyncio.run(roll.run(nodes, said, said))


def test_the_first_goes_alone_and_the_rest_by_batches(played: list[Any]) -> None:
    done = run(["w0", "w1", "w3", "w4"], 2, reboot=True)
    assert (done.nodes, done.reasons, len(done.changed)) == (["w0", "w1", "w3", "w4"], [], 3)
    groups = (["w0"], ["w1", "w3"], ["w4"])
    assert played == [(step, group, group if step == "site.yml" else [], True) for group in groups for step in STEPS]


def test_the_user_s_own_playbooks_are_rolled_with_the_phases(played: list[Any]) -> None:
    roll = RollingUpdate(Path("/p"), Path("/i"), Path("/s"), (), 1, site="/home/lab/site.yml")
    asyncio.run(roll.run(["w0"], said, said))
    assert [(step, limit) for step, _, limit, _ in played] == [
        ("drain-nodes.yml", []),
        ("/home/lab/site.yml", ["w0"]),
        ("resume-nodes.yml", []),
    ]


def test_each_batch_is_updated_inside_its_context(played: list[Any]) -> None:
    """The context ends for a batch that failed as well."""
    events: list[str] = []

    @asynccontextmanager
    async def around(group: Sequence[str]) -> AsyncIterator[None]:
        events.append(f"{group[0]} begins after {len(played)} playbooks")
        yield
        events.append(f"{group[0]} ends after {len(played)} playbooks")

    roll = RollingUpdate(Path("/p"), Path("/i"), Path("/s"), (), 1, around=around)
    assert asyncio.run(roll.run(["w0", "w2", "w4"], said, said)).nodes == ["w0"]
    assert events == [
        "w0 begins after 0 playbooks",
        "w0 ends after 3 playbooks",
        "w2 begins after 3 playbooks",
        "w2 ends after 6 playbooks",
    ]


def test_the_first_failure_ends_it_and_says_what_now(played: list[Any]) -> None:
    done = run(["w0", "w2", "w4", "w5"], 1)
    assert done.nodes == ["w0"]
    assert {group[0] for _, group, _, _ in played} == {"w0", "w2"}
    assert done.reasons[0] == "w2: roll-in: See that it is: gpu.count_matches_plan: expected 8, found 7"
    assert done.reasons[1].startswith(
        "w2: the rolling update stopped here with this batch drained; not touched: w4, w5 - repair the cause above"
    )


def test_a_node_that_does_not_get_empty_is_not_changed(played: list[Any]) -> None:
    assert not run(["busy", "w1"], 1).nodes
    assert [step for step, *_ in played] == ["drain-nodes.yml"]
