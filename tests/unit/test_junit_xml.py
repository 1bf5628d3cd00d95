"""What a CI system reads from a JUnit document."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest

from rackwright.junit_xml import Case, Outcome, Suite, render

STARTED = datetime(2026, 11, 23, 4, 5, 6, 789, tzinfo=UTC)


def parse(*cases, name="nightly"):
    return ElementTree.fromstring(render([Suite(name, STARTED, 1.5, cases)]).encode())


def test_counts_are_those_of_the_cases():
    outcomes = [Outcome.PASSED, Outcome.FAILURE, Outcome.FAILURE, Outcome.ERROR, Outcome.SKIPPED, Outcome.SKIPPED, Outcome.SKIPPED]
    suite = parse(*(Case("node", str(number), outcome) for number, outcome in enumerate(outcomes)))[0]
    counts = {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "7", "failures": "2", "errors": "1", "skipped": "3"}
    assert [[child.tag for child in case] for case in suite] == [[], ["failure"], ["failure"], ["error"], *([["skipped"]] * 3)]
    assert (suite.get("time"), suite.get("timestamp")) == ("1.500", "2026-11-23T04:05:06+00:00")


@pytest.mark.parametrize("text", ["\x00", "\x1b[31m", "\ufffe", "\ud800"])
def test_forbidden_characters_are_replaced_everywhere(text):
    case = Case(text, text, Outcome.FAILURE, text, text, properties={text: text})
    document = parse(case, name=text)
    values = [value for element in document.iter() for value in (*element.attrib.values(), element.text or "")]
    assert sum("\N{REPLACEMENT CHARACTER}" in value for value in values) == 7


def test_time_is_left_out_where_nothing_was_measured():
    timed, untimed = parse(Case("a", "timed", seconds=0.25), Case("a", "untimed"))[0]
    assert (timed.get("time"), untimed.get("time")) == ("0.2500", None)
