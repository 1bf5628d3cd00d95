"""Spans of `up` and of drift scans: written beside the stack's other results, and exported if the environment names a collector."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Final

from rackwright.drivers import otlp
from rackwright.inventory import paths
from rackwright.report.spans import Span, as_otlp, new_span_id, new_trace_id

PARENT: Final = "TRACEPARENT"
"""Environment variable with trace and parent span (W3C Trace Context, `traceparent`), from a CI system or from `rackwright up`."""
_FORM: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
_MOST: Final = 16 << 20
"""Bytes of the file from which it becomes traces.jsonl.1 and a new one begins; an `up` of four nodes writes about 100 kB."""


def context() -> tuple[str, str]:
    """Return trace id and parent span id: those of the environment, else the trace of this process without a parent."""
    found = _FORM.fullmatch(os.environ.get(PARENT, "").strip())
    return (found[1], found[2]) if found else (_own_trace(), "")


@cache
def _own_trace() -> str:
    return new_trace_id()


def record(stack: str, spans: Iterable[Span], trace_id: str = "") -> str:
    """Write spans to the stack's file and start their export. Return why one of both failed, or an empty text; raise nothing."""
    try:
        trace, parent = (trace_id, "") if trace_id else context()
        below = [replace(span, parent_id=span.parent_id or parent) for span in spans]
        document = as_otlp(stack, trace, below)
        _append(stack, json.dumps(document, separators=(",", ":")) + "\n")
        if otlp.exporter(os.environ) is not None:
            otlp.start_export(document)
    except Exception as error:  # Whatever fails here must not fail the run that it describes.
        return f"spans were not recorded or not exported: {error}"
    return ""


def _append(stack: str, line: str) -> None:
    file = paths.traces(stack)
    if not file.parent.is_dir():
        return  # `down` has removed the stack.
    if file.exists() and file.stat().st_size > _MOST:
        file.replace(file.with_name(f"{file.name}.1"))
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(line)


def run_traced(name: str, stack: str, work: Callable[[], int], *, clock: Callable[[], float] = time.time) -> int:
    """Run work and return its exit status, with a span around it. Processes that it starts record theirs below, by the environment."""
    trace_id, parent_id = context()
    span_id, before, began = new_span_id(), os.environ.get(PARENT), clock()
    os.environ[PARENT] = f"00-{trace_id}-{span_id}-01"
    status = 1
    try:
        status = work()
    finally:
        if before is None:
            os.environ.pop(PARENT, None)
        else:
            os.environ[PARENT] = before
        record(stack, [Span(name, began, clock(), {"process.exit.code": status}, status != 0, span_id, parent_id)], trace_id)
    return status
