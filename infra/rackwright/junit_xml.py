"""JUnit XML for CI systems: the one writer of the reports of checks and of drift."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow, not even escaped: https://www.w3.org/TR/xml/#charsets."""


class Outcome(Enum):
    """What a CI system shows of a case: the element's name inside of `testcase`; a case that passed has none."""

    PASSED = ""
    FAILURE = "failure"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Case:
    """One test case; `message` is one line, `text` the details, `seconds` is left out where nothing was measured."""

    classname: str
    name: str
    outcome: Outcome = Outcome.PASSED
    message: str = ""
    text: str = ""
    seconds: float | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Suite:
    """The cases of one run, its start and its duration in seconds. The counts in the document are those of its cases."""

    name: str
    started: datetime
    seconds: float
    cases: tuple[Case, ...]


def render(suites: Iterable[Suite], name: str = "", seconds: float | None = None) -> str:
    """Return the document; `name` and `seconds` describe all suites together. Characters that XML forbids are replaced by U+FFFD."""
    root = Element("testsuites", {"name": clean(name)} if name else {})
    if seconds is not None:
        root.set("time", f"{seconds:.3f}")
    for suite in suites:
        root.append(_suite(suite))
    indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def clean(text: str) -> str:
    """Return the text with U+FFFD in place of every character that XML 1.0 forbids."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def _suite(suite: Suite) -> Element:
    def count(outcome: Outcome) -> str:
        return str(sum(case.outcome is outcome for case in suite.cases))

    element = Element(
        "testsuite",
        name=clean(suite.name),
        tests=str(len(suite.cases)),
        failures=count(Outcome.FAILURE),
        errors=count(Outcome.ERROR),
        skipped=count(Outcome.SKIPPED),
        time=f"{suite.seconds:.3f}",
        timestamp=suite.started.isoformat(timespec="seconds"),
    )
    element.extend([_case(case) for case in suite.cases])
    return element


def _case(case: Case) -> Element:
    element = Element("testcase", classname=clean(case.classname), name=clean(case.name))
    if case.seconds is not None:
        element.set("time", f"{case.seconds:.4f}")
    if case.properties:
        properties = SubElement(element, "properties")
        for name, value in case.properties.items():
            SubElement(properties, "property", name=clean(name), value=clean(value))
    if case.outcome is not Outcome.PASSED:
        SubElement(element, case.outcome.value, message=clean(case.message)).text = clean(case.text) or None
    return element
