"""The section "Serving" of the report page: requests, latency and replicas of the newest serving run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rackwright.report.training_html import head, pairs, table_of

_HEADS: Final = (
    "stage",
    "clients",
    "sent",
    "completed",
    "refused",
    "lost",
    "latency p50/p95/p99 (s)",
    "first token p50/p95/p99 (s)",
    "tokens/s",
    "served by",
)
_WIDTH, _HEIGHT = 400, 80
"""Size of the drawing in its own units, which are pixels on a phone."""
_LEFT, _TOP, _BOTTOM = 20, 8, 18
"""Room for the labels."""


def serving_section(records: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the section as HTML with all texts escaped, empty without a record. `records`: the newest of each kind."""
    record = records.get("serve")
    return ["<h2>Serving</h2>", *_served(record)] if record else []


def _served(record: Mapping[str, Any]) -> Iterator[str]:
    yield head(record)
    yield pairs(iter(_figures(record)))
    yield table_of(*stage_rows(record["stages"]))
    if len(record["replicas"]) > 1:
        yield replicas_curve(record["replicas"])
    if record["scalings"]:
        rows = [
            (f"{one['at']:.0f} s", one["stage"], f"{one['from']} to {one['to']}", str(sum(one["waiting"]))) for one in record["scalings"]
        ]
        yield table_of(("after", "stage", "replicas", "waiting requests"), rows)
    if record["lost"]:
        yield table_of(("stage", "request lost because"), [(one["stage"], one["lost"]) for one in record["lost"]])


def _figures(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    totals, settings = record["totals"], record["settings"]
    return [
        ("server", settings["server"]),
        ("requests sent, completed, refused, lost", ", ".join(str(totals[name]) for name in ("sent", "completed", "refused", "lost"))),
        ("clients", settings["retry"]),
        ("autoscaler", settings["autoscaler"]),
    ]


def stage_rows(stages: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return head and rows of the table of stages."""
    return _HEADS, [_stage(one) for one in stages]


def _stage(one: Mapping[str, Any]) -> tuple[str, ...]:
    name = one["name"] if one["reached"] else f"{one['name']} (goal not reached)"
    counts = [str(one[key]) for key in ("clients", "sent", "completed", "refused", "lost")]
    served = ", ".join(f"{who}: {count}" for who, count in one["served_by"].items())
    speed = "unknown" if one["tokens_s"] is None else f"{one['tokens_s']:,.0f}"
    return name, *counts, _percentiles(one["latency"]), _percentiles(one["first_token"]), speed, served or "-"


def _percentiles(found: Mapping[str, float] | None) -> str:
    return "unknown" if found is None else " / ".join(f"{found[name]:.2f}" for name in ("p50", "p95", "p99"))


def replicas_curve(samples: Sequence[Mapping[str, Any]]) -> str:
    """Return the ready replicas over time as inline SVG, with a line for each number of replicas."""
    last = max(float(samples[-1]["at"]), 1.0)
    most = max(1, *(int(one["ready"]) for one in samples))

    def x(seconds: float) -> float:
        return _LEFT + seconds / last * (_WIDTH - _LEFT)

    def y(replicas: float) -> float:
        return _HEIGHT - _BOTTOM - replicas / most * (_HEIGHT - _BOTTOM - _TOP)

    points: list[str] = []
    before = 0
    for one in samples:
        points += [f"{x(one['at']):.1f},{y(number):.1f}" for number in (before, one["ready"])]
        before = one["ready"]
    grid = "".join(
        f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y(number):.1f}" y2="{y(number):.1f}"/>'
        f'<text x="{_LEFT - 4}" y="{y(number) + 4:.1f}" text-anchor="end">{number}</text>'
        for number in range(most + 1)
    )
    bottom = f'y="{_HEIGHT - 2}"'
    ends = f'<text x="{_LEFT}" {bottom}>ready replicas</text><text x="{_WIDTH}" {bottom} text-anchor="end">{last:.0f} s</text>'
    title = f"Ready replicas over {last:.0f} s, at most {most}"
    line = f'<title>{title}</title>{grid}<polyline points="{" ".join(points)}"/>{ends}'
    return f'<svg class=curve viewBox="0 0 {_WIDTH} {_HEIGHT}" role=img aria-label="{title}">{line}</svg>'
