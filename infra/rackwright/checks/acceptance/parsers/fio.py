"""Output of `fio --output-format=json`, of releases 2.1 to 3.41. Messages before and after the JSON are kept as its notes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rackwright.checks.cluster.harness.tool_output import UnreadableValue, lines_of, quoted, refusing
from rackwright.errors import UndeterminedError

_NO_NUMBER: Final = re.compile(r"(?<=[:\[,])(\s*)(-?nan|-?inf)(?=\s*[,}\]])", re.IGNORECASE)
"""What C prints for a division by zero, which JSON does not have."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One job, or the group of all jobs, in one direction."""

    job: str
    direction: str
    """`read` or `write`."""
    bytes_moved: int
    operations_s: float | UnreadableValue
    p99_ms: float | None
    """99th percentile of the time from submission to completion; None if fio printed none."""


@dataclass(frozen=True, slots=True)
class IoResult:
    """One run of fio."""

    streams: tuple[Stream, ...]
    """Every job and direction that moved bytes."""
    errors: Mapping[str, int]
    """errno of each job that ended with an error: 84 (EILSEQ) if a checksum differed."""
    notes: tuple[str, ...]
    """Messages beside the JSON."""

    def operations_s(self, direction: str) -> float:
        """Return the operations per second of all jobs in one direction; raises UndeterminedError if there is none, or one is unread."""
        found = [each.operations_s for each in self.streams if each.direction == direction]
        unread = next((each for each in found if isinstance(each, UnreadableValue)), None)
        if unread is not None or not found:
            raise UndeterminedError(unread.why if unread is not None else f"fio moved no bytes: {direction}")
        return sum(each for each in found if not isinstance(each, UnreadableValue))


@refusing("fio")
def parse(text: str) -> IoResult:
    """Return the result. Raises UndeterminedError for text without JSON, for truncated JSON, and without jobs."""
    document, notes = _document(text)
    jobs = document.get("jobs") or document.get("client_stats") or []
    if not jobs:
        raise UndeterminedError(f"fio ran no job: {notes[0] if notes else 'it reports none'}")
    kilobytes = str(document.get("fio version", "")).startswith("fio-2.")  # Since 3.0, io_bytes has bytes.
    streams = tuple(
        _stream(job, direction, kilobytes) for job in jobs for direction in ("read", "write") if (job.get(direction) or {}).get("io_bytes")
    )
    return IoResult(streams, {str(job["jobname"]): error for job in jobs if (error := _error(job))}, notes)


def _document(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the JSON and the lines beside it. A line of a message may contain a brace; the JSON begins on a line of its own."""
    begin = re.search(r"^\{", text, re.MULTILINE)
    if begin is None:
        said = lines_of(text)
        raise UndeterminedError(f"fio gave no result: {quoted(said[0]) if said else 'it printed nothing'}")
    plain = _NO_NUMBER.sub(r"\1null", text[begin.start() :])
    try:
        document, end = json.JSONDecoder().raw_decode(plain)
    except ValueError as error:
        notes = lines_of(text[: begin.start()])
        raise UndeterminedError(f"the JSON of fio is cut short: {error}{'; ' + quoted(notes[0]) if notes else ''}") from None
    return document, tuple(quoted(line) for line in (*lines_of(text[: begin.start()]), *lines_of(plain[end:])))


def _error(job: Mapping[str, Any]) -> int:
    """Return the errno of a job, 0 for none. Every release prints one: a job without it is damaged (stat.c, show_thread_status_json)."""
    error = job.get("error")
    if not isinstance(error, int) or isinstance(error, bool):
        raise UndeterminedError(f"fio: whether the job {job['jobname']} ended with an error cannot be read: {error!r}")
    return error


def _stream(job: Mapping[str, Any], direction: str, kilobytes: bool) -> Stream:
    found, name = job[direction], str(job["jobname"])
    rate, subject = found.get("iops"), f"{name} {direction} iops"
    known = isinstance(rate, int | float) and not isinstance(rate, bool)
    return Stream(
        job=name,
        direction=direction,
        bytes_moved=int(found["io_bytes"]) * (1024 if kilobytes else 1),
        operations_s=float(rate) if known else UnreadableValue(subject, None if rate is None else str(rate), ""),
        p99_ms=_percentile(found),
    )


def _percentile(found: Mapping[str, Any]) -> float | None:
    """Return the 99th percentile in ms. Releases before 3.0 count in µs, later ones name ns."""
    for name, scale in (("clat_ns", 1e6), ("clat", 1e3)):
        value = (found.get(name) or {}).get("percentile", {}).get("99.000000")
        if isinstance(value, int | float):
            return float(value) / scale
    return None
