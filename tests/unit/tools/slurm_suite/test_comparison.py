"""Each deviation from the table is a difference, in either direction."""

from __future__ import annotations

import pytest
from slurm_suite.comparison import differences
from slurm_suite.expectations import Expectation, Table
from slurm_suite.suite_log import Outcome, Result

TABLE = Table(
    slurm="1.2.3",
    recorded_with={},
    selected={
        "1.1": Expectation(Result.PASSED),
        "1.2": Expectation(Result.SKIPPED, "needs lua", "The lab has no lua."),
        "1.10": Expectation(Result.FAILED, "version", "Debian names itself."),
    },
    not_selected={"3.1": "Needs headers."},
    not_run_yet=["9.9"],
    limits={},
)
SUITE = ["1.1", "1.2", "1.10", "3.1", "9.9"]
CHOSEN = ["1.1", "1.2", "1.10"]
EXPECTED = {
    "1.1": Outcome("1.1", Result.PASSED, "", 1.0),
    "1.2": Outcome("1.2", Result.SKIPPED, "This test needs lua", 1.0),
    "1.10": Outcome("1.10", Result.FAILED, "bad version string", 1.0),
}


def test_expected_results_are_no_difference() -> None:
    assert differences(TABLE, SUITE, CHOSEN, EXPECTED) == []


@pytest.mark.parametrize(
    ("test", "result", "reason"),
    [
        ("1.1", Result.FAILED, "lost a task"),
        ("1.1", Result.SKIPPED, "needs lua"),
        ("1.1", Result.UNKNOWN, "ended at its limit"),
        ("1.2", Result.PASSED, ""),
        ("1.2", Result.SKIPPED, "needs two nodes"),
        ("1.2", Result.FAILED, "needs lua"),
        ("1.10", Result.PASSED, ""),
        ("1.10", Result.FAILED, "no response"),
    ],
)
def test_other_result_or_reason_is_a_difference(test: str, result: Result, reason: str) -> None:
    found = differences(TABLE, SUITE, CHOSEN, {**EXPECTED, test: Outcome(test, result, reason, 1.0)})
    assert [difference.test for difference in found] == [test]
    assert result.value in found[0].found


def test_chosen_test_that_did_not_run_is_a_difference() -> None:
    found = differences(TABLE, SUITE, CHOSEN, {test: one for test, one in EXPECTED.items() if test != "1.2"})
    assert [(one.test, one.found) for one in found] == [("1.2", "did not run")]


@pytest.mark.parametrize("vanished", ["1.10", "3.1", "9.9"])
def test_vanished_test_is_a_difference(vanished: str) -> None:
    outcomes = {test: one for test, one in EXPECTED.items() if test != vanished}
    found = differences(TABLE, [test for test in SUITE if test != vanished], CHOSEN, outcomes)
    assert [(one.test, one.expected) for one in found] == [(vanished, "a test of the suite")]


def test_test_without_a_row_is_a_difference() -> None:
    found = differences(TABLE, [*SUITE, "1.3"], CHOSEN, EXPECTED)
    assert [(one.test, one.expected) for one in found] == [("1.3", "a row in the table")]


def test_differences_are_in_numeric_order() -> None:
    found = differences(TABLE, SUITE, CHOSEN, {})
    assert [one.test for one in found] == ["1.1", "1.2", "1.10"]
