"""The result of a serving run: counts, percentiles and verdict; and its section of the report page."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.report.schemas import schema_errors
from rackwright.report.serving import document_of
from rackwright.report.serving_html import replicas_curve, serving_section

IDENTITY = {
    "stack": "lab",
    "target": "lab",
    "run": "serve-1",
    "user": "alice",
    "folder": "/mnt/s/serve-1",
    "started": "2026-11-28T12:00:00+00:00",
    "evidence": ["simulated: gpu", "figures do not apply to GPUs"],
}
SETTINGS = {
    "server": "rackwright, CPU",
    "clients": 40,
    "batch": 8,
    "queue": 24,
    "max_tokens": 24,
    "checkpoints": ["step-1", "step-2"],
    "autoscaler": "rackwright demo",
    "target_waiting": 4.0,
    "window_s": 30.0,
    "replicas": {"least": 1, "most": 2},
    "retry": "after 429",
}
SAMPLE = {"stage": "a", "replicas": 1, "ending": 0, "restarts": 0, "waiting": 0, "running": 2}
SAMPLES: list[dict[str, Any]] = [
    {**SAMPLE, "at": 0.0, "ready": 0, "facts": {}},
    {**SAMPLE, "at": 9.0, "ready": 2, "facts": {"device": "CPU", "torch": "2.6.0", "blas": "openblas", "checkpoint": "step-1"}},
]
SCALING = {"at": 5.0, "stage": "a", "from": 1, "to": 2, "waiting": [9]}


def stage(name: str, time: float, clients: int = 2) -> dict[str, Any]:
    return {"event": "stage", "stage": name, "clients": clients, "time": time}


def request(name: str, seconds: float, **more: Any) -> dict[str, Any]:
    """Return a request that was sent when its stage began."""
    first = {"first": seconds / 2, "tokens": 24, "refused": 0, "fingerprint": "step-1", "lost": ""}
    return {"event": "request", "stage": name, "time": 100.0 if name == "a" else 110.0, "seconds": seconds, **first, **more}


LINES = [stage("a", 100), *(request("a", number / 100) for number in range(1, 101)), stage("b", 110), request("b", 2.0, refused=2)]
END = [stage("", 120, 0), {"event": "end", "time": 121.0}]


def document(lines: list[dict[str, Any]], *, goals: tuple[bool, bool] = (True, True), error: str = "") -> dict[str, Any]:
    found = document_of(SETTINGS, lines, SAMPLES, [SCALING], {"a": goals[0], "b": goals[1]}, IDENTITY, error)
    assert schema_errors("serve", found) == []
    return found


def test_stage_has_figures_of_its_requests() -> None:
    first, second = document([*LINES, *END])["stages"]
    assert first["latency"] == {"p50": 0.5, "p95": 0.95, "p99": 0.99} and first["first_token"]["p50"] == 0.25
    assert (first["sent"], first["seconds"], first["tokens_s"], first["served_by"]) == (100, 10.0, 240.0, {"step-1": 100})
    assert (second["sent"], second["refused"], second["lost"]) == (1, 2, 0)


def test_lost_request_is_no_latency() -> None:
    found = document([*LINES, request("b", 60.0, lost="reset", first=None, tokens=3), *END])
    assert found["verdict"] == {"result": "failed", "reason": "1 of 102 requests were lost"}
    assert found["stages"][1]["latency"]["p99"] == 2.0 and found["lost"] == [{"stage": "b", "time": 110.0, "lost": "reset"}]
    assert found["totals"] == {"sent": 102, "completed": 101, "refused": 2, "lost": 1}


@pytest.mark.parametrize(
    ("lines", "goals", "error", "result", "reason"),
    [
        ([*LINES, *END], (True, True), "", "passed", "none of 101 requests was lost"),
        ([*LINES, *END], (True, False), "", "failed", "the replicas did not reach the goal of b"),
        ([*LINES, *END], (True, True), "stage b: late", "failed", "the run did not reach its end"),
        (LINES, (True, True), "", "failed", "the clients did not end, so that lost requests may be missing"),
        ([stage("a", 100), *END], (True, True), "", "failed", "the clients did not end, so that lost requests may be missing"),
    ],
)
def test_verdict_names_what_is_wrong(lines: list[Any], goals: tuple[bool, bool], error: str, result: str, reason: str) -> None:
    assert document(lines, goals=goals, error=error)["verdict"] == {"result": result, "reason": reason}


def test_section_has_figures_and_labels_simulation() -> None:
    text = "".join(serving_section({"serve": document([*LINES, request("b", 1.0, lost="<cut>"), *END])}))
    for part in ("0.50 / 0.95 / 0.99", "SIMULATED: gpu", "102, 101, 2, 1", "&lt;cut&gt;", "1 to 2", "at most 2"):
        assert part in text, part
    assert "<cut>" not in text and serving_section({}) == []


def test_curve_of_replicas_has_a_line_for_each_number() -> None:
    drawing = replicas_curve(SAMPLES)
    assert [number for number in range(4) if f">{number}</text>" in drawing] == [0, 1, 2]
    assert ">9 s</text>" in drawing and 'points="20.0,62.0 20.0,62.0 400.0,62.0 400.0,8.0"' in drawing
