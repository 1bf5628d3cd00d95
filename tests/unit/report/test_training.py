"""Loss, time and verdict of a training run, from the lines that its jobs wrote."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from support.demo_cluster import FACTS

from rackwright.report import training
from rackwright.report.schemas import schema_errors
from rackwright.report.training import Run

SETTINGS = {"mode": "ddp", "nodes": 2, "ranks": 2, "steps": 10, "batch": 16, "seed": 1, "every": 4}
IDENTITY = {
    "stack": "lab-train",
    "target": "lab",
    "run": "train-2",
    "user": "alice",
    "folder": "/mnt/sharedfs/x",
    "started": "2026-11-28T12:00:00+00:00",
    "evidence": ["CPU, gloo", "simulated: gpu"],
}


def bits(loss: float) -> str:
    """Return a loss as the program records it."""
    return struct.pack(">f", loss).hex()


def job(event: str, attempt: int, time: float) -> dict[str, Any]:
    """Return a line of the batch script."""
    return {"event": event, "attempt": str(attempt), "time": time, "job": str(7 + attempt), "nodes": "worker[0-1]"}


def ranks(attempt: int, time: float, first: int, last: int, *, device: str = "CPU", factor: float = 1.0) -> Iterator[dict[str, Any]]:
    """Yield the lines of a session that trains the steps first to last, one a second."""
    common = {"attempt": str(attempt)}
    yield {**common, "event": "start", "time": time, **FACTS, "device": device}
    yield {**common, "event": "resume", "time": time + 1, "step": first - 1, "damaged": [], "seconds": 0.1}
    for step in range(first, last + 1):
        time += 1
        loss = factor * 3 / step
        yield {**common, "event": "step", "time": time + 1, "step": step, "loss": loss, "bits": bits(loss), "seconds": 1.0}
        if step % 4 == 0:
            yield {**common, "event": "checkpoint", "time": time + 1, "step": step, "bytes": 100, "seconds": 0.25, "sha256": "cd"}


def undisturbed(**options: Any) -> Run:
    """Return a run of ten steps: submitted at 0, begun at 2, first step from 6 on."""
    return Run(SETTINGS, [job("begin", 0, 2), *ranks(0, 5, 1, 10, **options), job("end", 0, 18)], 0, 18)


def disturbed() -> Run:
    """Return a run whose worker is lost after step 6; the next attempt resumes from step 4 and begins 20 s later."""
    lines = [job("begin", 0, 2), *ranks(0, 5, 1, 6), job("failed", 0, 32), job("begin", 1, 33), *ranks(1, 36, 5, 10), job("end", 1, 45)]
    return Run(SETTINGS, lines, 0, 45)


def judged(run: Run, reference: dict[str, Any] | None, injected: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return the whole document of a run."""
    document = training.document_of(run, IDENTITY, injected or [])
    whole = {**document, "efficiency": training.efficiency(document, []), "verdict": training.judge(document, reference), "error": ""}
    assert schema_errors("demo", whole) == []
    return whole


def test_undisturbed_run_becomes_baseline() -> None:
    document = judged(undisturbed(), None)
    assert (document["verdict"]["result"], document["verdict"]["rule"]) == ("passed", "baseline")
    assert document["tokens_s"] == 2048 and document["tokens_s_per_rank"] == 1024
    assert [one["step"] for one in document["loss"]] == list(range(1, 11)) and document["failures"] == []


def test_time_of_undisturbed_run_is_accounted_for() -> None:
    expected = {"wall": 18, "productive": 10, "wasted": 0, "checkpoints": 0.5, "waiting": 2, "starting": 4, "other": 1.5}
    assert training.time_of(undisturbed()) == expected
    assert training.document_of(undisturbed(), IDENTITY)["goodput"] == pytest.approx(10 / 18, abs=1e-4)


def test_lost_steps_are_wasted_and_trained_again() -> None:
    document = judged(disturbed(), judged(undisturbed(), None))
    assert [one["step"] for one in document["loss"]] == list(range(1, 11)), "each step counts once"
    assert document["time"]["productive"] == 10 and document["time"]["wasted"] == 2
    (failure,) = document["failures"]
    # The last line of the first attempt is at 12; the first step of the second one begins at 37.
    assert failure == {"at": 12, "step": 6, "resumed_from": 4, "steps_lost": 2, "seconds": 25.0, "restarted_by": "job"}
    assert [(one["outcome"], one["resumed_from"]) for one in document["attempts"]] == [("failed", [0]), ("completed", [4])]


def test_disturbed_run_with_identical_bits_passes() -> None:
    assert judged(disturbed(), judged(undisturbed(), None))["verdict"]["result"] == "passed"


def test_disturbed_run_with_another_bit_fails() -> None:
    reference = judged(undisturbed(), None)
    reference["final_bits"] = f"{int(reference['final_bits'], 16) ^ 1:08x}"
    verdict = judged(disturbed(), reference)["verdict"]
    assert (verdict["result"], verdict["rule"]) == ("failed", "identical")


def test_disturbed_run_without_baseline_is_unknown() -> None:
    assert judged(disturbed(), None)["verdict"]["result"] == "unknown"
    injected = [{"kind": "kill-worker", "node": "worker1", "step": 6, "at": 12.0, "undone": 32.0}]
    assert judged(undisturbed(), None, injected)["verdict"]["result"] == "unknown", "a run with a fault is no baseline"


@pytest.mark.parametrize(("factor", "result"), [(1.04, "passed"), (1.06, "failed"), (0.94, "failed")])
def test_gpus_are_compared_within_band(factor: float, result: str) -> None:
    reference = judged(undisturbed(device="NVIDIA H100"), None)
    verdict = judged(undisturbed(device="NVIDIA H100", factor=factor), reference)["verdict"]
    assert (verdict["result"], verdict["rule"]) == (result, "band")


def test_incomplete_run_fails() -> None:
    run = Run(SETTINGS, [job("begin", 0, 2), *ranks(0, 5, 1, 6), job("failed", 0, 32), job("gave-up", 0, 32)], 0, 32)
    assert judged(run, judged(undisturbed(), None))["verdict"]["result"] == "failed"


def test_run_whose_ranks_never_started_has_document() -> None:
    document = judged(Run(SETTINGS, [job("begin", 0, 2)], 0, 9), None)
    assert (document["verdict"]["result"], document["environment"], document["tokens_s"]) == ("failed", None, None)
    assert document["attempts"][0]["outcome"] == "lost"


def test_restart_by_torchrun_is_named() -> None:
    lines = [job("begin", 0, 2), *ranks(0, 5, 1, 6), *ranks(0, 15, 5, 10), job("end", 0, 25)]
    (failure,) = judged(Run(SETTINGS, lines, 0, 25), None)["failures"]
    assert failure["restarted_by"] == "torchrun" and failure["steps_lost"] == 2


def test_efficiency_needs_run_of_one_rank() -> None:
    two = training.document_of(undisturbed(), IDENTITY)
    one = {**two, "settings": {**SETTINGS, "ranks": 1}, "tokens_s": 1280.0}
    assert training.efficiency(two, []) == []
    assert training.efficiency(two, [one]) == [
        {"ranks": 1, "tokens_s": 1280.0, "value": 1.0},
        {"ranks": 2, "tokens_s": 2048.0, "value": 0.8},
    ]
    other = {**one, "environment": {**one["environment"], "device": "NVIDIA H100"}}
    assert training.efficiency(two, [other]) == []


def test_runs_with_other_settings_are_not_comparable() -> None:
    document = training.document_of(undisturbed(), IDENTITY)
    assert training.is_comparable(document, dict(document))
    assert not training.is_comparable(document, {**document, "settings": {**SETTINGS, "seed": 2}})
    assert not training.is_comparable(document, {**document, "environment": {**document["environment"], "torch": "2.8.0"}})
