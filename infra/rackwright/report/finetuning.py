"""The result of a fine-tuning run, computed from the lines that its job wrote: losses before and after, files, verdict. Queries nothing."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rackwright.report.verdict import Verdict

SCHEMA: Final = "rackwright.finetune/1"
LIMIT: Final = 1e-5
"""Largest difference of a score between the merged model and base with adapter, relative to the largest score. Single precision has 24
bits, 6e-8; the sums of a score add up some of them."""
_WARM: Final = 2
"""Steps that do not count for the speed: memory is allocated."""

Event = Mapping[str, Any]


def document_of(
    settings: Mapping[str, Any], trained_by: str, lines: Sequence[Event], identity: Mapping[str, Any], error: str
) -> dict[str, Any]:
    """Return the document rackwright.finetune/1. `trained_by`: the training run. `identity`: stack, run, user, folder, evidence."""
    first = {str(line["event"]): line for line in reversed(lines) if "job" not in line}
    jobs = [line for line in lines if "job" in line]
    steps = [line for line in lines if line["event"] == "step"]
    document = {
        "schema": SCHEMA,
        "kind": "finetune",
        **identity,
        "settings": dict(settings),
        "job": str(jobs[0]["job"]) if jobs else None,
        "node": str(jobs[0]["nodes"]) if jobs else None,
        "environment": _part(first.get("start"), ("device", "blas", "torch")),
        "base": _part(first.get("base") and {"run": trained_by, **first["base"]}, ("run", "step", "path", "sha256", "damaged")),
        "completed": any(line["event"] == "end" for line in jobs),
        "loss": [{"step": int(line["step"]), "loss": float(line["loss"]), "bits": str(line["bits"])} for line in steps],
        "tokens_s": _speed(first.get("start"), steps),
        "adapter": _adapter(first),
        "merged": _part(first.get("merged"), ("path", "bytes", "sha256")),
        "evaluation": {**_losses(first["evaluation"]), "limit": LIMIT} if "evaluation" in first else None,
        "error": error,
    }
    return {**document, "verdict": judge(document, first.get("refused"))}


def judge(document: Mapping[str, Any], refused: Event | None) -> dict[str, str]:
    """Return the verdict: the loss on new text must have fallen, and the merged model must be base with adapter."""
    found = document["evaluation"]
    if refused is not None:
        return _verdict(Verdict.FAILED, f"no intact checkpoint in {refused['folder']}")
    if not document["completed"] or found is None:
        return _verdict(Verdict.FAILED, "the run did not reach its evaluation")
    new, old = found["new"], found["old"]
    if not found["merged_difference"] <= LIMIT:  # NaN is no match either
        return _verdict(Verdict.FAILED, f"scores of the merged model differ by {found['merged_difference']:.1e} (at most {LIMIT:.0e})")
    losses = [f"on {name} text from {one['before']:.3f} to {one['after']:.3f}" for name, one in (("new", new), ("old", old))]
    change = "the loss went " + ", ".join(losses)
    return _verdict(Verdict.PASSED if new["after"] < new["before"] else Verdict.FAILED, change)


def _verdict(result: Verdict, reason: str) -> dict[str, str]:
    return {"result": result.value, "reason": reason}


def _part(line: Event | None, keys: Sequence[str]) -> dict[str, Any] | None:
    return {key: line[key] for key in keys} if line else None


def _adapter(first: Mapping[str, Event]) -> dict[str, Any] | None:
    if "adapter" not in first or "start" not in first:
        return None
    return {
        **{key: first["start"][key] for key in ("rank", "alpha", "parameters", "total")},
        **(_part(first["adapter"], ("path", "bytes", "sha256")) or {}),
    }


def _losses(line: Event) -> dict[str, Any]:
    return {key: line[key] for key in ("new", "old", "merged_difference")}


def _speed(start: Event | None, steps: Sequence[Event]) -> float | None:
    """Return tokens per second at the median step."""
    seconds = [float(line["seconds"]) for line in steps[_WARM:]]
    if start is None or not seconds or statistics.median(seconds) <= 0:
        return None
    return round(int(start["sequences"]) * int(start["context"]) / statistics.median(seconds), 1)
