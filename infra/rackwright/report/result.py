"""The result of a check on a node, recorded as soon as it is known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rackwright.printable import printable
from rackwright.report.check_plan import Expected
from rackwright.report.verdict import Evidence, SkipReason, Verdict


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a check on a node."""

    id: str
    kind: str
    node: str
    subject: str
    verdict: Verdict
    reason: str
    """Reason why the check did not pass; empty if it passed."""
    evidence: Evidence
    expected: str
    found: str
    remedy: str
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return the result as data in the format of the report's contract."""
        return {
            "id": self.id,
            "kind": self.kind,
            "node": self.node,
            "subject": self.subject,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "evidence": self.evidence.value,
            "expected": self.expected,
            "found": self.found,
            "remedy": self.remedy,
            "seconds": round(self.seconds, 4),
        }


def from_dict(data: Mapping[str, Any]) -> Result:
    """Return the result from its data in a report."""
    return Result(**{**data, "verdict": Verdict(data["verdict"]), "evidence": Evidence(data["evidence"])})


def result(
    expected_result: Expected,
    verdict: Verdict,
    *,
    reason: str = "",
    expected: str = "",
    found: str = "",
    seconds: float = 0.0,
    stack: str = "",
) -> Result:
    """Return the result for an expected check. Evidence and remedy come from the manifest, never from the check. Make texts printable."""
    if verdict is Verdict.SKIPPED and reason not in list(SkipReason):
        verdict, reason = Verdict.UNKNOWN, f"skipped for an invalid reason: {reason or 'none given'}"
    remedy = (
        "" if verdict in (Verdict.PASSED, Verdict.SKIPPED) else expected_result.spec.remedy.format(node=expected_result.node, stack=stack)
    )
    if verdict is Verdict.UNKNOWN:  # The remedy of a failure may be drastic, and nothing has failed.
        remedy = f"resolve the reason and run the command again; if the check then fails: {remedy}"
    return Result(
        id=expected_result.id,
        kind=expected_result.spec.kind.value,
        node=expected_result.node,
        subject=expected_result.spec.subject,
        verdict=verdict,
        reason=printable(reason),
        evidence=expected_result.evidence,
        expected=printable(expected),
        found=printable(found),
        remedy=remedy,
        seconds=seconds,
    )


def read_lines(lines: Iterable[str]) -> dict[str, Result]:
    """Return results by id from a run's JSON lines. Ignore invalid lines, for example a last line that a crash truncated."""
    found: dict[str, Result] = {}
    for line in lines:
        try:
            one = from_dict(json.loads(line))
        except (ValueError, TypeError, KeyError):
            continue
        found[one.id] = one
    return found
