"""Compare outcomes with the table: every deviation in either direction is a difference."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from slurm_suite.expectations import Expectation, Table
from slurm_suite.suite_log import Outcome, Result


@dataclass(frozen=True)
class Difference:
    """A deviation from the table, in words."""

    test: str
    expected: str
    found: str


def differences(table: Table, suite: Collection[str], chosen: Collection[str], outcomes: Mapping[str, Outcome]) -> list[Difference]:
    """Return the differences, by test number.

    `suite` are the tests that the suite contains, `chosen` those that were to run, `outcomes` those that ran.
    """
    listed = {*table.selected, *table.not_selected, *table.not_run_yet}
    found = [Difference(test, "a row in the table", "the suite has the test, the table does not") for test in set(suite) - listed]
    found += [Difference(test, "a test of the suite", "the table has the test, the suite does not") for test in listed - set(suite)]
    found += [difference for test in set(chosen) & set(suite) if (difference := _compare(test, table, outcomes.get(test)))]
    return sorted(found, key=lambda difference: by_number(difference.test))


def _compare(test: str, table: Table, outcome: Outcome | None) -> Difference | None:
    expected = table.selected.get(test)
    if outcome is None:
        return Difference(test, _words(expected), "did not run")
    if expected is None:
        return Difference(test, "no expectation", _found(outcome))
    if outcome.result is not expected.result or expected.says not in outcome.reason:
        return Difference(test, _words(expected), _found(outcome))
    return None


def _words(expected: Expectation | None) -> str:
    if expected is None:
        return "no expectation"
    return expected.result.value if expected.result is Result.PASSED else f'{expected.result}: "{expected.says}"'


def _found(outcome: Outcome) -> str:
    return f"{outcome.result}: {outcome.reason}" if outcome.reason else outcome.result.value


def by_number(test: str) -> tuple[int, ...]:
    """Return the sort key of a test: 1.10 follows 1.9."""
    return tuple(int(part) for part in test.split("."))
