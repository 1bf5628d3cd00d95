"""Loss, time and verdict of a training run, from the lines that its jobs wrote."""

from __future__ import annotations

import pytest
from support.training_runs import IDENTITY, SETTINGS, disturbed, job, judged, ranks, undisturbed

from rackwright.report import training
from rackwright.report.training import Run


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
