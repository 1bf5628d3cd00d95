"""Results are read from summary, exit status and log of a test; a log without a summary is no pass."""

from __future__ import annotations

import pytest
from slurm_suite.suite_log import Result, read_log

RULE = "=" * 78
HEAD = f"{RULE}\nTEST:    test3.4\n{RULE}\n"
STAMP = "[2025-02-03 04:05:06.789]"


def log(*lines: str, summary: str = "") -> str:
    """Return a log with a summary word, as the suite writes it."""
    end = f"{RULE}\n{summary:20}: test3.4\n{RULE}\n" if summary else ""
    return HEAD + "".join(f"{line}\n" for line in lines) + end


def test_pass_has_no_reason() -> None:
    text = log(f"{STAMP} Debug   Exit Code: 0 (run_command@globals:1,test3.4:9)", "uid=5(erin)\r", summary="SUCCESS")
    outcome = read_log("3.4", 0, text, 1.5)
    assert (outcome.result, outcome.reason, outcome.seconds) == (Result.PASSED, "", 1.5)


@pytest.mark.parametrize(
    ("status", "summary"),
    [(0, ""), (1, ""), (0, "FAILURE"), (1, "SUCCESS"), (255, "SUCCESS"), (0, "SKIPPED"), (139, "SUCCESS")],
)
def test_status_and_summary_must_agree(status: int, summary: str) -> None:
    """An exception while `globals` is read ends with 0 and no summary."""
    outcome = read_log("3.4", status, log('    (file "./globals" line 7)', summary=summary), 0.1)
    assert outcome.result is Result.UNKNOWN
    assert f"exit status {status}" in outcome.reason


def test_summary_of_another_test_does_not_count() -> None:
    assert read_log("3.41", 0, log(summary="SUCCESS"), 0.1).result is Result.UNKNOWN


def test_last_summary_counts() -> None:
    """A test can print what looks like a summary."""
    text = log("SUCCESS             : test3.4", f"{STAMP} Fatal   step lost (fail@globals:431,test3.4:8)", summary="FAILURE")
    assert read_log("3.4", 1, text, 0.1).result is Result.FAILED


def test_test_ended_at_its_limit_is_unknown() -> None:
    outcome = read_log("3.4", None, log("waiting for job 12", summary="SUCCESS"), 300.0)
    assert outcome.result is Result.UNKNOWN
    assert outcome.reason.startswith("ended at its limit")


def test_skip_gives_its_reason_only() -> None:
    text = log(
        f"{STAMP} Warning Partition has no time limit (log_warn@globals:9,test3.4:5)",
        f"{STAMP} Warning Needs (two) nodes (skip@globals:471,test3.4:40)",
        summary="SKIPPED",
    )
    assert read_log("3.4", 255, text, 0.1) == read_log("3.4", 255, text.replace("\n", "\r\n"), 0.1)
    assert read_log("3.4", 255, text, 0.1).reason == "Needs (two) nodes"


def test_fatal_message_may_have_several_lines() -> None:
    lines = ("line one", "line two (fail@globals:431,test3.4:60)")
    text = log(f"{STAMP} Error   earlier (log_error@globals:1,test3.4:2)", f"{STAMP} Fatal   Bad output:", *lines, summary="FAILURE")
    assert read_log("3.4", 1, text, 0.1).reason == "Bad output: line one line two"


def test_failed_subtests_are_listed_once_each() -> None:
    one = f"{STAMP} Error   Subtest  1 failed  : left side (subfail@globals:611,test3.4:60)"
    two = f"{STAMP} Error   Subtest  2 failed  : right side (subfail@globals:611,test3.4:61)"
    reason = read_log("3.4", 1, log(one, two, one, summary="FAILURE"), 0.1).reason
    assert reason == "Subtest 1 failed : left side; Subtest 2 failed : right side"


def test_coloured_log_reads_the_same() -> None:
    text = log(f"{STAMP} Warning No lua (skip@globals:471,test3.4:40)", summary="SKIPPED")
    assert read_log("3.4", 255, text.replace("SKIPPED", "\x1b[1;33mSKIPPED"), 0.1).reason == "No lua"


def test_skip_without_entry_says_so() -> None:
    assert read_log("3.4", 255, log("nothing", summary="SKIPPED"), 0.1).reason == "no reason in the log"


def test_exception_is_named() -> None:
    lines = ('couldn\'t execute "gcc": no such file or directory', "    while executing", '"exec gcc"', '    (file "test3.4" line 5)')
    text = log(*lines, f"{STAMP} Fatal   An Expect/TCL exception occurred (fail@globals:431,exit@globals:7314)", summary="FAILURE")
    assert read_log("3.4", 1, text, 0.1).reason == f"An Expect/TCL exception occurred; {lines[0]}"
