"""Score of a fault run: the number of faults reported with the right subject on the right node, and the time to detection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Final

SECONDS: Final = "seconds to detection"
"""The property of a test's report: from the fault's end to the verdict that names it."""


def lines(reports: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the score of the tests that injected a fault, by outcome; empty without one.

    A fault that a stack cannot receive is no detection; one whose lab could not be created, or had differences at its end, is a miss.
    """
    seen = dict(_times(reports.get("passed", ())))
    wrong = [*reports.get("failed", ()), *reports.get("error", ())]
    missed = list(dict.fromkeys(report.nodeid for report in wrong if "tests/faults/" in report.nodeid))
    if not seen and not missed:
        return []
    seen = {name: seconds for name, seconds in seen.items() if not any(one.endswith(f"[{name}]") for one in missed)}
    told = [f"faults: {len(seen)} of {len(seen) + len(missed)} named by the right subject on the right node"]
    if seen:
        slowest = max(seen, key=lambda name: seen[name])
        told.append(f"time to detection: median {median(seen.values()):.1f} s, longest {seen[slowest]:.1f} s ({slowest})")
    unset = [f"not set here: {name} ({why})" for name, why in _unset(reports.get("skipped", ()))]
    return told + [f"not seen: {name}" for name in missed] + unset


def slowest_first(reports: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return each fault's time to detection, slowest first."""
    return [f"{seconds:6.1f} s  {name}" for name, seconds in sorted(_times(reports.get("passed", ())), key=lambda pair: -pair[1])]


def _unset(reports: Iterable[Any]) -> Iterable[tuple[str, str]]:
    """Yield (fault, why) of those that the lab could not receive."""
    for report in reports:
        if "tests/faults/" in report.nodeid:
            yield report.nodeid.partition("[")[2].rstrip("]") or report.nodeid, str(report.longrepr[2]).removeprefix("Skipped: ")


def _times(reports: Iterable[Any]) -> Iterable[tuple[str, float]]:
    """Yield (fault, seconds) of detected ones whose lab was restored."""
    for report in reports:
        for name, value in report.user_properties:
            if name == SECONDS and report.when == "call":
                yield report.nodeid.partition("[")[2].rstrip("]") or report.nodeid, value
