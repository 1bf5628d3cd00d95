"""The result of a serving run, computed from what its clients wrote and what was seen of the replicas: latency, losses, verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from rackwright.report.verdict import Verdict

SCHEMA: Final = "rackwright.serve/1"
_SHOWN: Final = 20
"""Lost requests that are listed."""
_PERCENTILES: Final = (50, 95, 99)

Event = Mapping[str, Any]


def document_of(
    settings: Mapping[str, Any],
    lines: Sequence[Event],
    samples: Sequence[Event],
    scalings: Sequence[Event],
    goals: Mapping[str, bool],
    identity: Mapping[str, Any],
    error: str,
) -> dict[str, Any]:
    """Return the document rackwright.serve/1.

    lines: of the clients. samples: the replicas over time. goals: of each stage that began, whether the replicas did what it is for.
    """
    requests = [line for line in lines if line["event"] == "request"]
    facts = next((one["facts"] for one in samples if one.get("facts")), None)
    document = {
        "schema": SCHEMA,
        "kind": "serve",
        **identity,
        "settings": dict(settings),
        "environment": {key: facts[key] for key in ("device", "torch", "blas")} if facts else None,
        "totals": _counts(requests),
        "stages": [_stage(one, requests, goals) for one in _spans(lines)],
        "lost": [{key: one[key] for key in ("stage", "time", "lost")} for one in requests if one["lost"]][:_SHOWN],
        "replicas": [{key: value for key, value in one.items() if key != "facts"} for one in samples],
        "scalings": [dict(one) for one in scalings],
        "ended": any(line["event"] == "end" for line in lines),
        "error": error,
    }
    return {**document, "verdict": judge(document)}


def judge(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the verdict: no request may be lost, and the replicas must have done what each stage is for."""
    totals, missed = document["totals"], [one["name"] for one in document["stages"] if not one["reached"]]
    if totals["lost"]:
        return _verdict(Verdict.FAILED, f"{totals['lost']} of {totals['sent']} requests were lost")
    if document["error"]:
        return _verdict(Verdict.FAILED, "the run did not reach its end")
    if missed:
        return _verdict(Verdict.FAILED, f"the replicas did not reach the goal of {', '.join(missed)}")
    if not document["ended"] or not totals["sent"]:
        return _verdict(Verdict.FAILED, "the clients did not end, so that lost requests may be missing")
    return _verdict(Verdict.PASSED, f"none of {totals['sent']} requests was lost")


def _verdict(result: Verdict, reason: str) -> dict[str, str]:
    return {"result": result.value, "reason": reason}


def _spans(lines: Sequence[Event]) -> list[tuple[Event, float]]:
    """Return each stage with clients, and when the next one began."""
    marks = [line for line in lines if line["event"] in ("stage", "end")]
    return [(one, float(after["time"])) for one, after in pairwise(marks) if one["event"] == "stage" and one["clients"]]


def _stage(span: tuple[Event, float], requests: Sequence[Event], goals: Mapping[str, bool]) -> dict[str, Any]:
    """Return the figures of a stage: those of the requests that were first sent in it. Its tokens are those of its answers."""
    mark, end = span
    own = [one for one in requests if one["stage"] == mark["stage"]]
    complete = [one for one in own if not one["lost"]]
    seconds = max((end - float(mark["time"]), *(float(one["time"]) + one["seconds"] - float(mark["time"]) for one in complete)))
    return {
        "name": mark["stage"],
        "clients": mark["clients"],
        "seconds": round(seconds, 1),
        **_counts(own),
        "latency": _percentiles([one["seconds"] for one in complete]),
        "first_token": _percentiles([one["first"] for one in complete if one["first"] is not None]),
        "tokens_s": round(sum(one["tokens"] for one in complete) / seconds, 1) if seconds > 0 else None,
        "served_by": dict(sorted(Counter(one["fingerprint"] for one in complete if one["fingerprint"]).items())),
        "reached": bool(goals.get(str(mark["stage"]))),
    }


def _counts(requests: Sequence[Event]) -> dict[str, int]:
    """Return the counts of requests; `refused` counts refusals, which a client answers by sending the request again."""
    lost = sum(bool(one["lost"]) for one in requests)
    refused = sum(int(one["refused"]) for one in requests)
    return {"sent": len(requests), "completed": len(requests) - lost, "refused": refused, "lost": lost}


def _percentiles(values: Sequence[float]) -> dict[str, float] | None:
    """Return percentiles by the nearest rank, in seconds.

    >>> _percentiles([0.4, 0.1, 0.3, 0.2])
    {'p50': 0.2, 'p95': 0.4, 'p99': 0.4}
    """
    ordered = sorted(values)
    if not ordered:
        return None
    return {f"p{one}": ordered[math.ceil(one / 100 * len(ordered)) - 1] for one in _PERCENTILES}
