"""The report begins with the differences, and its verdict needs results."""

from __future__ import annotations

from slurm_suite.comparison import differences
from slurm_suite.expectations import Expectation, Table
from slurm_suite.report import Run, render
from slurm_suite.suite_log import Outcome, Result

SKIPPED = Expectation(Result.SKIPPED, "needs lua", "The lab has no lua.")
TABLE = Table("1.2.3", {}, {"1.1": Expectation(Result.PASSED), "1.2": SKIPPED}, {"3.1": "Needs headers."}, ["9.9"], {})
SUITE = ["1.1", "1.2", "3.1", "9.9"]
EXPECTED = {"1.1": Outcome("1.1", Result.PASSED, "", 1.0), "1.2": Outcome("1.2", Result.SKIPPED, "This test needs lua", 1.0)}


def run_of(outcomes: dict[str, Outcome], **more: object) -> Run:
    return Run(TABLE, outcomes, differences(TABLE, SUITE, list(TABLE.selected), outcomes), **more)  # type: ignore[arg-type]


def test_run_as_expected_is_good() -> None:
    run = run_of(EXPECTED)
    text = render(run)
    assert run.is_as_expected
    assert text.startswith("Slurm's test suite 1.2.3: 2 tests ran: 1 passed, 1 skipped, 0 failed, 0 unknown\n")
    assert "differences" not in text
    assert "Needs headers.: 3.1" in text and "9.9" in text


def test_differences_come_first() -> None:
    run = run_of({**EXPECTED, "1.1": Outcome("1.1", Result.FAILED, "lost a task", 1.0)}, leftovers=["job 7"])
    text = render(run)
    assert not run.is_as_expected
    assert text.index("1.1      expected passed; found failed: lost a task") < text.index("job 7") < text.index("\nfailed (1)")


def test_damage_alone_is_bad() -> None:
    run = run_of(EXPECTED, damage=["node that can run jobs worker9 is missing"])
    assert not run.is_as_expected
    assert "worker9" in render(run)


def test_run_without_results_is_bad() -> None:
    assert not Run(TABLE, {}, []).is_as_expected


def test_result_that_came_only_alone_is_listed() -> None:
    first = Outcome("1.1", Result.FAILED, "no response", 1.0)
    assert "1.1      failed: no response" in render(run_of(EXPECTED, repeated={"1.1": first}))
    assert "another result" not in render(run_of(EXPECTED, repeated={"1.1": EXPECTED["1.1"]}))


def test_equal_differences_share_a_row() -> None:
    run = Run(TABLE, EXPECTED, differences(TABLE, [*SUITE, "2.1", "2.2", "2.3"], list(TABLE.selected), EXPECTED))
    assert "differences from the table (1)\n  2.1 2.2 2.3 expected a row in the table" in render(run)
