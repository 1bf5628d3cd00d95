"""When and where failures are injected: the schedule of a seed, and what refuses an event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rackwright.operations.chaos.modes import Mode
from rackwright.operations.chaos.permission import Consent, Observation, objections
from rackwright.operations.chaos.schedule import schedule_events

PLACES = {Mode.RANK_KILL: ["worker0", "worker1"], Mode.NODE_KILL: ["worker0", "worker1"], Mode.SCHEDULER_RESTART: ["login0"]}


def keys(seed: int, **options: int) -> list[tuple[Any, ...]]:
    """Return what a seed decides."""
    found = schedule_events(PLACES, seed=seed, **{"interval_s": 60, "duration_s": 600, **options})
    return [(one.mode, one.target, one.at_s, one.pick) for one in found]


def test_seed_repeats_mode_target_and_time() -> None:
    assert keys(7) == keys(7) and len(keys(7)) == 10
    for part in range(4):
        assert [one[part] for one in keys(7)] != [one[part] for one in keys(8)]


def test_random_events_keep_half_an_interval_between_them() -> None:
    times = [one[2] for one in keys(3)]
    assert all(0 <= at - 60 * number <= 30 for number, at in enumerate(times)) and len({at % 60 for at in times}) > 5


def test_target_can_have_its_mode() -> None:
    assert all(target in PLACES[mode] for mode, target, _, _ in keys(5, duration_s=6000))


def seen(*, worker1: str = "IDLE", user: str = "alice", state: str = "RUNNING", error: str = "") -> Observation:
    """Return a cluster of two workers that run one job."""
    nodes = {"worker0": {"states": ["IDLE"], "reason": ""}, "worker1": {"states": [worker1], "reason": "disk"}}
    return Observation(0.0, error, nodes, [{"id": "7", "user": user, "state": state, "nodes": "worker[0-1]", "name": "x"}])


@pytest.mark.parametrize(
    ("observed", "opened", "why"),
    [
        (seen(), [], ""),
        (seen(), ["e-1"], "event e-1 has not been undone"),
        (seen(worker1="DRAIN"), [], "worker1 is DRAIN (disk)"),
        (seen(worker1="NOT_RESPONDING"), [], "worker1 is NOT_RESPONDING"),
        (seen(user="bob"), [], "job 7 of bob"),
        (seen(user="bob", state="PENDING"), [], ""),
        (seen(error="Unable to contact slurm controller"), [], "Slurm does not answer: Unable"),
    ],
)
def test_event_is_refused_with_reason(observed: Observation, opened: list[str], why: str) -> None:
    found = objections(observed, Consent("alice"), ["worker1"], opened)
    assert (not found) == (not why) and why in "; ".join(found)


def test_jobs_of_others_count_on_affected_nodes_unless_included() -> None:
    jobs = [{"id": "8", "user": "bob", "state": "RUNNING", "nodes": "worker0", "name": "x"}]
    observed = replace(seen(), jobs=jobs)
    assert objections(observed, Consent("alice"), ["worker1"], []) == []
    assert len(objections(observed, Consent("alice"), ["worker0"], [])) == 1
    assert objections(observed, Consent("alice", everybody=True), ["worker0"], []) == []
