"""Spans of runs, and their form in OTLP JSON (OpenTelemetry protocol 1.x, opentelemetry-proto: trace.proto; JSON mapping of OTLP/HTTP).

Spans hold names, times and numbers. Messages of tasks are left out: they may quote what a node printed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from rackwright import __version__

_INTERNAL: Final = 1
"""SPAN_KIND_INTERNAL."""
_ERROR: Final = 2
"""STATUS_CODE_ERROR."""
Value = str | int | float | bool


def new_trace_id() -> str:
    """Return a trace id: 16 bytes in hexadecimal notation."""
    return secrets.token_hex(16)


def new_span_id() -> str:
    """Return a span id: 8 bytes in hexadecimal notation."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class Span:
    """One interval of work. Times are seconds of the epoch."""

    name: str
    start: float
    end: float
    attributes: Mapping[str, Value] = field(default_factory=dict)
    failed: bool = False
    span_id: str = field(default_factory=new_span_id)
    parent_id: str = ""


def of_playbook(times: Iterable[Sequence[Any]], parent_id: str) -> list[Span]:
    """Return spans of phases below a parent, of roles below the phases, and of hosts below the roles.

    times: phase, role, host, start and end in ISO 8601, number of tasks and of failed ones (rackwright.drivers.ansible).
    """
    rows = [(str(one[0] or "other"), str(one[1] or "tasks"), str(one[2]), _time(one[3]), _time(one[4]), one[5], one[6]) for one in times]
    spans: list[Span] = []
    for phase in dict.fromkeys(row[0] for row in rows):
        of_phase = [row for row in rows if row[0] == phase]
        above = _around(f"phase {phase}", of_phase, {"rackwright.phase": phase}, parent_id)
        spans.append(above)
        for role in dict.fromkeys(row[1] for row in of_phase):
            of_role = [row for row in of_phase if row[1] == role]
            names = {"rackwright.phase": phase, "rackwright.role": role}
            part = _around(f"role {role}", of_role, names, above.span_id)
            spans.append(part)
            spans += [_around(f"{role} {row[2]}", [row], {**names, "host.name": row[2]}, part.span_id) for row in of_role]
    return spans


def _around(name: str, rows: Sequence[tuple[Any, ...]], attributes: Mapping[str, Value], parent_id: str) -> Span:
    tasks = {"rackwright.tasks": sum(row[5] for row in rows), "rackwright.tasks_failed": sum(row[6] for row in rows)}
    start, end = min(row[3] for row in rows), max(row[4] for row in rows)
    return Span(name, start, end, {**attributes, **tasks}, any(row[6] for row in rows), parent_id=parent_id)


def _time(text: str) -> float:
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def as_otlp(stack: str, trace_id: str, spans: Iterable[Span]) -> dict[str, Any]:
    """Return an ExportTraceServiceRequest in its JSON form."""
    resource: dict[str, Value] = {"service.name": "rackwright", "service.version": __version__, "rackwright.stack": stack}
    scope = {"name": "rackwright", "version": __version__}
    rows = [_span(trace_id, span) for span in spans]
    return {"resourceSpans": [{"resource": {"attributes": _attributes(resource)}, "scopeSpans": [{"scope": scope, "spans": rows}]}]}


def _span(trace_id: str, span: Span) -> dict[str, Any]:
    return {
        "traceId": trace_id,
        "spanId": span.span_id,
        **({"parentSpanId": span.parent_id} if span.parent_id else {}),
        "name": span.name,
        "kind": _INTERNAL,
        "startTimeUnixNano": str(round(span.start * 1e9)),
        "endTimeUnixNano": str(round(max(span.end, span.start) * 1e9)),
        "attributes": _attributes(span.attributes),
        "status": {"code": _ERROR} if span.failed else {},
    }


def _attributes(values: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Value) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}
