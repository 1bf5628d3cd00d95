"""Lines of training runs, as their jobs write them, and the documents made of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

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
