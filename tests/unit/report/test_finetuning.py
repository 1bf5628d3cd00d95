"""Losses, files and verdict of a fine-tuning run, from the lines that its job wrote."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.cli.render.demo import finetuning_text
from rackwright.report.finetuning import LIMIT, document_of
from rackwright.report.schemas import schema_errors

IDENTITY = {
    "stack": "lab-train",
    "target": "lab",
    "run": "finetune-1",
    "user": "alice",
    "folder": "/mnt/x/finetune-1",
    "started": "2026-11-28T12:00:00+00:00",
    "evidence": ["CPU, PyTorch 2.6.0", "simulated: gpu"],
}
START = {"device": "CPU", "blas": "openblas", "torch": "2.6.0", "context": 128, "sequences": 16, "rank": 8, "alpha": 16}
LOSSES: dict[str, Any] = {
    "new": {"before": 1.9, "after": 0.8},
    "old": {"before": 1.29, "after": 1.31},
    "merged_difference": 8e-7,
}


def lines(**evaluation: Any) -> list[dict[str, Any]]:
    """Return the lines of a complete run, with changed values of its evaluation."""
    job = {"attempt": "0", "job": "7", "nodes": "worker0"}
    files = {"path": "/mnt/x", "bytes": 272502, "sha256": "ab"}
    return [
        {**job, "event": "begin", "time": 1.0},
        {"event": "start", **START, "parameters": 65536, "total": 940800},
        {"event": "base", "step": 200, "path": "/mnt/x/train-1/checkpoints/step-00000200", "sha256": "cd", "damaged": []},
        *({"event": "step", "step": step, "loss": 2.0 / step, "bits": "3f800000", "seconds": 0.25} for step in range(1, 11)),
        {"event": "adapter", **files},
        {"event": "merged", **files},
        {"event": "evaluation", **LOSSES, **evaluation},
        {"event": "end", "step": 10},
        {**job, "event": "end", "time": 20.0},
    ]


def document(found: list[dict[str, Any]], error: str = "") -> dict[str, Any]:
    """Return the document of these lines."""
    made = document_of({"steps": 10, "seed": 1}, "train-1", found, IDENTITY, error)
    assert schema_errors("finetune", made) == []
    return made


def test_complete_run_passes() -> None:
    made = document(lines())
    assert made["verdict"] == {
        "result": "passed",
        "reason": "the loss went on new text from 1.900 to 0.800, on old text from 1.290 to 1.310",
    }
    assert made["base"]["run"] == "train-1" and made["base"]["step"] == 200 and made["tokens_s"] == 16 * 128 / 0.25
    assert made["adapter"]["parameters"] == 65536 and len(made["loss"]) == 10
    text = finetuning_text(made)
    assert "passed: the loss went" in text and "65,536 of 940,800" in text and "1.900 -> 0.800" in text and "simulated: gpu" in text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"new": {"before": 1.9, "after": 1.9}}, "from 1.900 to 1.900"),
        ({"new": {"before": 1.9, "after": float("nan")}}, "to nan"),
        ({"merged_difference": 2 * LIMIT}, "differ by 2.0e-05 (at most 1e-05)"),
        ({"merged_difference": float("nan")}, "differ by nan"),
    ],
)
def test_worse_loss_or_other_merged_model_fails(change: dict[str, Any], reason: str) -> None:
    made = document_of({"steps": 10, "seed": 1}, "train-1", lines(**change), IDENTITY, "")
    assert made["verdict"]["result"] == "failed" and reason in made["verdict"]["reason"]


def test_missing_checkpoint_is_the_reason() -> None:
    found = [lines()[0], {"event": "refused", "folder": "/mnt/x/train-1/checkpoints", "damaged": ["step-00000200"]}]
    made = document(found, "no end")
    assert made["verdict"] == {"result": "failed", "reason": "no intact checkpoint in /mnt/x/train-1/checkpoints"}
    assert "error: no end" in finetuning_text(made)


@pytest.mark.parametrize("length", [0, 1, 3, 8, 14, 15])
def test_run_that_ended_early_fails(length: int) -> None:
    """The evaluation alone is not enough: the job may have ended with an error after it."""
    assert document(lines()[:length])["verdict"] == {"result": "failed", "reason": "the run did not reach its evaluation"}
