"""Read how one test of Slurm's suite ended, from its exit status and its log.

Source of the formats: `testsuite/expect/globals` of Slurm 24.11, procedures `_print_summary`, `_log_format`, `fail`, `skip`, `subfail`
and `subskip`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import Final


class Result(StrEnum):
    """How a test ended. `UNKNOWN`: it was ended at its limit, or its log has no summary that agrees with its exit status."""

    PASSED = "passed"
    SKIPPED = "skipped"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Outcome:
    """The result of one test; `reason` is what the test logged, empty for a pass; `seconds` is wall time."""

    test: str
    result: Result
    reason: str
    seconds: float


_HEADERS: Final = {"SUCCESS": (Result.PASSED, 0), "SKIPPED": (Result.SKIPPED, 255), "FAILURE": (Result.FAILED, 1)}
"""Word of the summary -> result and exit status. Tcl's `exit -1` is 255 for the parent process."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_ENTRY: Final = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\] (\w+) +", re.MULTILINE)
_TRACED: Final = re.compile(r"(.*?) \((\w+)@globals:", re.DOTALL)
"""The message of an entry, and the procedure that wrote it: the backtrace starts with that procedure's frame."""
_IS_EXCEPTION: Final = "An Expect/TCL exception occurred"
_EXCEPTION: Final = re.compile(r"^(\S.*)\n    while executing$", re.MULTILINE)
"""The message of a Tcl exception, which precedes its stack."""
_DECISIVE: Final = {
    Result.FAILED: (("Fatal", "fail"), ("Error", "subfail")),
    Result.SKIPPED: (("Warning", "skip"), ("Warning", "subskip")),
}
"""Level and procedure of the entries that decide a result, the most decisive first."""


def read_log(test: str, status: int | None, log: str, seconds: float) -> Outcome:
    """Return the outcome of a test; `status` is its exit status, None if it was ended at its limit.

    An exit status alone proves nothing: an exception in the suite's start ends with 0 and without a summary (seen with Tcl 8.6.16).
    """
    text = _COLOUR.sub("", log).replace("\r\n", "\n")
    if status is None:
        return Outcome(test, Result.UNKNOWN, f"ended at its limit; last line: {_last_line(text)}", seconds)
    headers = re.findall(rf"^(SUCCESS|SKIPPED|FAILURE) +: test{re.escape(test)}$", text, re.MULTILINE)
    if not headers:
        return Outcome(test, Result.UNKNOWN, f"exit status {status} without a summary; last line: {_last_line(text)}", seconds)
    result, expected = _HEADERS[headers[-1]]
    if status != expected:
        return Outcome(test, Result.UNKNOWN, f"exit status {status} with the summary {headers[-1]} (expected {expected})", seconds)
    return Outcome(test, result, _reason(text, result), seconds)


def _reason(text: str, result: Result) -> str:
    """Return the decisive messages of a skip or a failure, each once."""
    for level, procedure in _DECISIVE.get(result, ()):
        messages = [message for found, writer, message in _entries(text) if (found, writer) == (level, procedure)]
        if messages:
            return "; ".join(dict.fromkeys([*messages, *_EXCEPTION.findall(text)[:1]] if _IS_EXCEPTION in messages else messages))
    return "" if result is Result.PASSED else "no reason in the log"


def _entries(text: str) -> list[tuple[str, str, str]]:
    """Return level, procedure and message of each log entry that has a backtrace; a message may have several lines."""
    starts = list(_ENTRY.finditer(text))
    found = []
    for start, following in zip_longest(starts, starts[1:]):
        traced = _TRACED.match(text, start.end(), following.start() if following else len(text))
        if traced:
            found.append((start[1], traced[2], " ".join(traced[1].split())))
    return found


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else "(none)"
