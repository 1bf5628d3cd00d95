"""The report as JUnit XML for CI systems, one test case per result."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from rackwright.report.document import Report
from rackwright.report.result import Result
from rackwright.report.verdict import Verdict

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow, not even escaped."""


def as_junit(report: Report) -> str:
    """Return JUnit XML: `failed` is a failure, `unknown` an error, and a report without results is an error as well."""
    totals = report.totals
    suite = Element(
        "testsuite",
        name=f"rackwright {report.stack} {report.level}",
        tests=str(len(report.checks)),
        failures=str(totals["failed"]),
        errors=str(totals["unknown"] + (not report.checks)),
        skipped=str(totals["skipped"]),
        time=f"{report.seconds:.3f}",
        timestamp=report.started.isoformat(timespec="seconds"),
    )
    for check in report.checks:
        _case(suite, check)
    if not report.checks:
        SubElement(SubElement(suite, "testcase", classname="rackwright", name="any check"), "error", message="no checks ran")
    suites = Element("testsuites")
    suites.append(suite)
    indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _case(suite: Element, check: Result) -> None:
    case = SubElement(suite, "testcase", classname=check.subject, name=check.id, time=f"{check.seconds:.4f}")
    properties = SubElement(case, "properties")
    SubElement(properties, "property", name="evidence", value=check.evidence.value)
    kinds = {Verdict.FAILED: "failure", Verdict.UNKNOWN: "error", Verdict.SKIPPED: "skipped"}
    if check.verdict in kinds:
        said = SubElement(case, kinds[check.verdict], message=_clean(check.reason or f"expected {check.expected}, found {check.found}"))
        said.text = _clean("\n".join(line for line in (check.expected, check.found, check.remedy) if line))


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
