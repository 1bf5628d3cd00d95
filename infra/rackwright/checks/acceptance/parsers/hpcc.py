"""Output file of HPCC (hpccoutf.txt): HPL, DGEMM, STREAM, RandomAccess, PTRANS and FFT in one run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.tool_output import Lines, decimal, lines_of, quoted, refusing
from rackwright.errors import UndeterminedError

_SUMMARY: Final = ("Begin of Summary section.", "End of Summary section.")
_SUCCESS: Final = "Success"
_FAILED: Final = re.compile(r"\bFAILED\b|\bfailed\b|^Failed ")
_ALLOCATION: Final = re.compile(r"^(Failed to allocate|Not enough memory)", re.IGNORECASE)
"""HPCC counts a test that got no memory as failed."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One run of HPCC."""

    right: bool
    """Whether all tests verified their results, HPL's residual among them."""
    failure: str
    """The first line that reports a failure; empty if there is none."""
    figures: Mapping[str, float]
    """Values of the summary by name. A value that cannot be read, such as nan, raises UndeterminedError."""


@refusing("HPCC")
def parse(text: str) -> Benchmark:
    """Return the summary. Raises UndeterminedError if it has no end, or a test got no memory."""
    lines = [line.strip() for line in lines_of(text)]
    if _SUMMARY[0] not in lines or _SUMMARY[1] not in lines[lines.index(_SUMMARY[0]) :]:
        raise UndeterminedError("HPCC did not finish: its summary is missing")
    first = lines.index(_SUMMARY[0])
    figures = _figures(lines[first + 1 : lines.index(_SUMMARY[1], first)])
    unallocated = next((line for line in lines if _ALLOCATION.match(line)), "")
    if unallocated:
        raise UndeterminedError(f"HPCC did not run all tests: {quoted(unallocated)}")
    success, failures = figures[_SUCCESS], [line for line in lines if _FAILED.search(line) and not re.search(r"\b0\b.*\bfailed\b", line)]
    return Benchmark(success == 1 and not failures, quoted(failures[0]) if failures else "", figures)


def _figures(lines: list[str]) -> Lines[float]:
    found, unread = dict[str, float](), list[str]()
    for line in lines:
        name, equals, value = line.partition("=")
        try:
            found[name] = decimal(value)
        except ValueError:
            unread += [line] if equals else []
    return Lines(found, unread)
