"""What a failure did to a training run, from lines of the run; the verdict and the score of events."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.report.chaos import EventRecord, TrainingEffect, effect_on_training, judge, score, verdict_of
from rackwright.report.verdict import Verdict


def steps(first: int, last: int, begun: float, attempt: str = "0", *, pause: float = 1.0) -> list[dict[str, Any]]:
    """Return steps, a second each."""
    return [
        {"event": "step", "attempt": attempt, "time": begun + pause * (step - first + 1), "step": step, "seconds": 1.0}
        for step in range(first, last + 1)
    ]


def start(at: float, resumed: int = 0, attempt: str = "0") -> list[dict[str, Any]]:
    """Return the start of the ranks."""
    common = {"attempt": attempt, "time": at}
    return [{**common, "event": "start"}, {**common, "event": "resume", "step": resumed}]


def job(event: str, at: float, attempt: str = "0") -> dict[str, Any]:
    """Return a line of the batch script."""
    return {"event": event, "attempt": attempt, "time": at, "job": "41", "nodes": "worker[0-1]"}


BEFORE = [job("begin", 0.0), *start(1.0), *steps(1, 10, 1.0)]
"""Ten steps, the last one at 11 s."""


def test_restart_loses_steps_since_checkpoint() -> None:
    lines = [*BEFORE, job("failed", 15.0), job("begin", 20.0, "1"), *start(22.0, 5, "1"), *steps(6, 9, 24.0, "1")]
    found = effect_on_training(lines, 11.5, 31.0, ends_step=True)
    assert (found.step_before, found.resumed_from, found.steps_lost, found.recovered_at) == (10, 5, 5, 25.0)
    assert (found.seconds_lost, found.noticed_at, found.noticed_as) == (13.0, 15.0, "its launcher failed")


def test_second_restart_counts_from_first_ranks() -> None:
    lines = [*BEFORE, *start(20.0, 5), *steps(6, 7, 20.0), *start(40.0, 5), *steps(6, 6, 40.0)]
    found = effect_on_training(lines, 11.5, 12.0, ends_step=True)
    assert (found.recovered_at, found.steps_lost, found.noticed_as) == (41.0, 5, "its ranks started again")


@pytest.mark.parametrize(
    ("ends_step", "undone", "recovers"), [(True, 12.0, None), (False, None, None), (False, 12.0, 13.0), (False, 14.0, 15.0)]
)
def test_steps_after_undo_are_recovery_unless_run_must_restart(ends_step: bool, undone: float | None, recovers: float | None) -> None:
    found = effect_on_training([*BEFORE, *steps(11, 15, 11.0)], 11.5, undone, ends_step=ends_step)
    assert found.recovered_at == recovers and found.noticed_at is None


def test_pause_without_restart_costs_time_and_no_step() -> None:
    lines = [*BEFORE, *steps(11, 11, 30.0), *steps(12, 14, 31.0)]
    found = effect_on_training(lines, 11.5, 30.5, ends_step=False)
    assert (found.steps_lost, found.seconds_lost, found.recovered_at) == (0, 19.0, 31.0)


def test_restart_without_a_step_is_no_recovery() -> None:
    found = effect_on_training([*BEFORE, job("failed", 15.0), *start(20.0, 5)], 11.5, 12.0, ends_step=True)
    assert found.recovered_at is None and found.steps_lost is None


def test_run_that_ends_has_recovered_and_one_that_gave_up_has_not() -> None:
    assert effect_on_training([*BEFORE, job("end", 13.0)], 11.5, 11.6, ends_step=False).recovered_at == 13.0
    assert effect_on_training([*BEFORE, job("gave-up", 13.0)], 11.5, 11.6, ends_step=True).gave_up


def record(**changes: Any) -> EventRecord:
    """Return the record of an event that passed."""
    effect = TrainingEffect(10, resumed_from=5, recovered_at=20.0, steps_lost=5, seconds_lost=9.0)
    known = {"begun": 1.0, "injected": 1.0, "undone": 2.0, "undone_by": "unit", "clean": True, "run": "r", "effect": effect}
    found = EventRecord("e-1", 1, 7, "rank_kill", "worker1", 0.0, **{**known, **changes})
    found.verdict, found.reason = judge(found)
    return found


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, Verdict.PASSED),
        ({"run": None, "effect": TrainingEffect(None)}, Verdict.PASSED),
        ({"undone": None}, Verdict.FAILED),
        ({"clean": False}, Verdict.FAILED),
        ({"clean": None}, Verdict.UNKNOWN),
        ({"effect": TrainingEffect(10)}, Verdict.FAILED),
        ({"effect": TrainingEffect(10, recovered_at=3.0, gave_up=True)}, Verdict.FAILED),
    ],
)
def test_event_passes_if_undone_clean_and_recovered(changes: dict[str, Any], verdict: Verdict) -> None:
    assert record(**changes).verdict is verdict


def test_source_counts_once_and_from_injection() -> None:
    found = record()
    for at in (4.26, 9.0):
        found.detect("slurm node state", at, "DOWN")
    found.detect("training job", 0.5, "clocks differ")
    assert [(one["by"], one["seconds"]) for one in found.detected_by] == [("slurm node state", 3.3), ("training job", 0.0)]


def test_score_sums_events_that_took_place() -> None:
    seen = record()
    seen.detect("slurm node state", 5.0, "DOWN")
    skipped = EventRecord("e-2", 2, 7, "xid", "worker0", 60.0, verdict=Verdict.SKIPPED)
    found = score([seen.data(), record(undone=None).data(), skipped.data()])
    assert (found["events"], found["injected"], found["undone"], found["detected"], found["median_detection_s"]) == (3, 2, 1, 1, 4.0)
    assert (found["steps_lost"], found["seconds_lost"], found["recovered"], found["with_training"]) == (10, 18.0, 2, 2)
    assert (found["passed"], found["failed"], found["skipped"]) == (1, 1, 1)


def test_verdict_of_run_names_events() -> None:
    skipped = EventRecord("e-2", 2, 7, "xid", "worker0", 60.0, verdict=Verdict.SKIPPED, reason="no go").data()
    passed, failed = record().data(), record(clean=False).data()
    assert verdict_of([passed, skipped], [])["result"] == "passed"
    assert verdict_of([skipped], []) == {"result": "unknown", "reason": "no failure was injected"}
    assert verdict_of([passed, failed], []) == {"result": "failed", "reason": "e-1: nodes are not in service again"}
    assert verdict_of([passed], ["e-1 is not undone"]) == {"result": "failed", "reason": "e-1 is not undone"}
