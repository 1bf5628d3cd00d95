"""The verdict of a check, by its outcome in pytest."""

from __future__ import annotations

import pytest

from rackwright.checks.cluster.harness.clock_offsets import Offset, common, narrowed, offset, sharpened
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.harness.probe import CommandOutput, NodeBusyError
from rackwright.checks.cluster.harness.pytest_plugin import verdict_of
from rackwright.errors import UndeterminedError
from rackwright.report.verdict import Verdict


def compared(found=1, planned=1):
    """Return an Expect after a comparison, and the exception it raised."""
    expect = Expect()
    try:
        expect(found, planned)
    except Mismatch as error:
        return expect, error
    return expect, None


def skipped(reason):
    """Return the exception of pytest.skip."""
    try:
        pytest.skip(reason)
    except pytest.skip.Exception as error:
        return error


def test_equal_values_pass():
    expect, error = compared()
    assert verdict_of(error, expect) == (Verdict.PASSED, "")


def test_different_values_fail_and_print_both():
    expect, error = compared(7, 8)
    assert verdict_of(error, expect) == (Verdict.FAILED, "expected 8, found 7")


@pytest.mark.parametrize(
    ("error", "verdict", "words"),
    [
        (UndeterminedError("worker0 is unreachable"), Verdict.UNKNOWN, "worker0 is unreachable"),
        (KeyError("gpus"), Verdict.UNKNOWN, "the check failed with an internal error: KeyError('gpus')"),
        (TimeoutError(), Verdict.UNKNOWN, "the check failed with an internal error"),
        (AssertionError("Unexpected exit code 1"), Verdict.UNKNOWN, "Unexpected exit code 1"),
        (skipped("node-out"), Verdict.SKIPPED, "node-out"),
        (NodeBusyError(), Verdict.SKIPPED, "node-busy"),
    ],
)
def test_other_outcomes_are_recorded(error, verdict, words):
    found, reason = verdict_of(error, Expect())
    assert found is verdict
    assert words in reason


def test_check_without_comparison_does_not_pass():
    assert verdict_of(None, Expect())[0] is Verdict.UNKNOWN


class TestExpect:
    def test_only_differences_are_reported(self):
        expect, _ = compared({"alice": 2001, "bob": 1005, "eve": 3}, {"alice": 2001, "bob": 2002, "carol": 2003})
        assert (expect.planned, expect.found) == ("bob: 2002; carol: 2003; eve: none", "bob: 1005; carol: missing; eve: 3")

    def test_holds_argument_decides(self):
        expect = Expect()
        expect("24 GiB", "at least 2 GiB", holds=True)
        with pytest.raises(Mismatch):
            expect("same", "same", holds=False)

    def test_long_values_are_truncated(self):
        expect, _ = compared(list(range(1000)), [])
        assert len(expect.found) < 320


class TestClocks:
    def test_offset_uncertainty_follows_response_time(self):
        found = offset(CommandOutput(out="105.5", sent=100.0, arrived=101.0))
        assert (found.seconds, found.uncertainty) == (5.0, 0.5)

    def test_slow_response_is_repeated(self):
        import time

        slow = offset(CommandOutput(out="100", sent=100.0, arrived=110.0))
        assert sharpened(slow, time.time, 0.5).uncertainty < 0.5

    def test_two_readings_narrow_each_other(self):
        assert narrowed(Offset(0.0, 2.0), Offset(3.0, 2.0)) == Offset(1.5, 0.5)

    def test_readings_around_a_step_stay_separate(self):
        assert narrowed(Offset(0.0, 1.0), Offset(9.0, 2.0)) == Offset(9.0, 2.0)

    def test_uncertain_readings_leave_median_unchanged(self):
        assert common([Offset(0.1, 0.2), Offset(8.0, 9.0), Offset(7.0, 9.0)], 0.5) == 0.1
        assert common([Offset(8.0, 9.0), Offset(6.0, 9.0), Offset(7.0, 9.0)], 0.5) == 7.0
        assert common([], 0.5) == 0.0

    def test_quick_response_is_not_repeated(self):
        quick = offset(CommandOutput(out="100", sent=100.0, arrived=100.1))
        assert sharpened(quick, lambda: 1 / 0, 0.5) is quick
