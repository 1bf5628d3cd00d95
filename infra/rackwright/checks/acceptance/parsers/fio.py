"""Output of `fio --output-format=json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rackwright.checks.cluster.harness.tool_output import refusing
from rackwright.errors import UndeterminedError


@dataclass(frozen=True, slots=True)
class Stream:
    """One job, or the group of all jobs, in one direction."""

    job: str
    direction: str
    """`read` or `write`."""
    bytes_moved: int
    mb_s: float
    """Millions of bytes per second."""
    operations_s: float
    fsync_p99_ms: float | None
    """99th percentile of fsync; None if none was called."""


@refusing("fio")
def parse(text: str) -> tuple[Stream, ...]:
    """Return every job and direction that moved bytes. Raises UndeterminedError for errors, and for truncated text."""
    start = text.find("{")
    if start < 0:
        raise UndeterminedError(f"fio gave no result: {' '.join(text.split())[:160] or 'it printed nothing'}")
    try:
        document, _ = json.JSONDecoder().raw_decode(text[start:])
        jobs = document["jobs"]
    except (ValueError, KeyError) as error:
        raise UndeterminedError(f"the JSON of fio is cut short: {error}") from None
    broken = [job for job in jobs if job.get("error")]
    if broken or not jobs:
        raise UndeterminedError(f"fio: job {broken[0]['jobname']} ended with error {broken[0]['error']}" if broken else "fio ran no job")
    return tuple(_stream(job, direction) for job in jobs for direction in ("read", "write") if job[direction]["io_bytes"])


def _stream(job: dict[str, Any], direction: str) -> Stream:
    found = job[direction]
    sync = job.get("sync", {}).get("lat_ns", {})
    percentile = sync.get("percentile", {}).get("99.000000")
    return Stream(
        job=job["jobname"],
        direction=direction,
        bytes_moved=int(found["io_bytes"]),
        mb_s=found["bw_bytes"] / 1e6,
        operations_s=float(found["iops"]),
        fsync_p99_ms=percentile / 1e6 if percentile is not None else None,
    )
