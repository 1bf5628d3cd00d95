"""Injected failures as text: one row for each event, and the score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rackwright.cli.render.table import table

_HEADS = ("event", "mode", "node", "undone by", "noticed by", "steps lost", "seconds lost", "verdict")


def run_text(document: Mapping[str, Any]) -> str:
    """Return the result of a run."""
    verdict, score = document["verdict"], document["score"]
    lines = [
        f"{verdict['result']}: {verdict['reason']}",
        f"run {document['run']} on stack {document['stack']}, mode {document['mode']}, seed {document['seed']}",
        f"evidence: {'; '.join(document['evidence'])}",
        _alerts(document["alerts"]),
        *(f"simulated: {text}" for text in sorted({one["simulated"] for one in document["events"] if one["simulated"]})),
        "",
        table(_HEADS, list(_rows(document))),
        "",
        table(("score", "value"), list(_figures(score))),
    ]
    return "\n".join(lines)


def _alerts(read: Mapping[str, Any]) -> str:
    """Return whether alerts were read."""
    if read["server"] is None:
        return "alerts: not read, the stack has no Alertmanager of its own"
    if read["problem"]:
        return f"alerts: {read['answers']} requests answered by {read['server']}; the last one was not: {read['problem']}"
    return f"alerts: read from {read['server']}"


def score_text(stack: str, documents: Iterable[Mapping[str, Any]]) -> str:
    """Return one row for each recorded run of a stack."""
    rows = []
    for one in documents:
        score = one["score"]
        done, late = score["injected"], score["median_detection_s"]
        rows.append(
            [
                *(one["run"], one["mode"], one["seed"], f"{done} of {score['events']}", f"{score['undone']} of {done}"),
                *(f"{score['detected']} of {done}", None if late is None else f"{late:.1f} s"),
                *(f"{score['recovered']} of {score['with_training']}", score["steps_lost"], one["verdict"]["result"]),
            ]
        )
    if not rows:
        return f"stack {stack}: no run is on record"
    heads = ("run", "mode", "seed", "injected", "undone", "noticed", "median", "training recovered", "steps lost", "verdict")
    return table(heads, rows)


def _rows(document: Mapping[str, Any]) -> Iterator[list[object]]:
    for one in document["events"]:
        sources = sorted(one["detected_by"], key=lambda by: by["seconds"])
        lost = one["seconds_lost"]
        noticed = "; ".join(f"{by['by']} {by['seconds']:.1f} s" for by in sources) or None
        undone = one["undone_by"] if one["injected"] is not None else None
        cells: list[object] = [one["number"], one["mode"], one["target"]["node"], undone, noticed, one["steps_lost"]]
        yield [*cells, None if lost is None else f"{lost:.1f}", f"{one['verdict']}: {one['reason']}"]


def _figures(score: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    done, late = score["injected"], score["median_detection_s"]
    yield "injected", f"{done} of {score['events']}"
    yield "undone", f"{score['undone']} of {done}"
    yield "noticed by Slurm, health check, alert or job", f"{score['detected']} of {done}"
    yield "median time to detection", "unknown" if late is None else f"{late:.1f} s"
    yield "training runs that recovered", f"{score['recovered']} of {score['with_training']}"
    yield "training steps lost", str(score["steps_lost"])
    yield "training time lost", f"{score['seconds_lost']:.1f} s"
