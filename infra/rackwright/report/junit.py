"""The report as JUnit XML for CI systems, one test case per result."""

from __future__ import annotations

from typing import Final

from rackwright.junit_xml import Case, Outcome, Suite, render
from rackwright.report.document import Report
from rackwright.report.result import Result
from rackwright.report.verdict import Verdict

_OUTCOMES: Final = {Verdict.FAILED: Outcome.FAILURE, Verdict.UNKNOWN: Outcome.ERROR, Verdict.SKIPPED: Outcome.SKIPPED}
_EMPTY: Final = Case("rackwright", "any check", Outcome.ERROR, "no checks ran")


def as_junit(report: Report) -> str:
    """Return JUnit XML: `failed` is a failure, `unknown` an error, and a report without results is an error as well."""
    cases = tuple(_case(check) for check in report.checks) or (_EMPTY,)
    return render([Suite(f"rackwright {report.stack} {report.level}", report.started, report.seconds, cases)])


def _case(check: Result) -> Case:
    outcome = _OUTCOMES.get(check.verdict, Outcome.PASSED)
    return Case(
        check.subject,
        check.id,
        outcome,
        message=check.reason or f"expected {check.expected}, found {check.found}",
        text="\n".join(line for line in (check.expected, check.found, check.remedy) if line),
        seconds=check.seconds,
        properties={"evidence": check.evidence.value},
    )
