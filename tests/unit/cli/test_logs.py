"""`rackwright logs`: what is on which stream, and its exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.cli import CliResult, Run, run_cli

from rackwright.operations import job_logs, log_stream, logs
from rackwright.operations.logs import LogQuery
from rackwright.report.logs.document import LogEntry, NodeLogs, merge
from rackwright.report.logs.job_cause import JobCause
from rackwright.report.logs.job_document import JobReport, RunReport
from rackwright.report.logs.job_record import JobId, JobRun

ENTRY = LogEntry(1795795200.5, "worker0", "slurmd", 3, 7, "error: \x1b[31mx")


class Stack:
    """The nodes of a stack, and the queries that they received."""

    def __init__(self) -> None:
        self.queries: list[Any] = []
        self.nodes = [NodeLogs("worker0", (ENTRY,))]

    def query(self, stack: str, query: LogQuery) -> Any:
        self.queries.append(query)
        return merge(stack, query.since, query.until, self.nodes, query.lines)

    def job(self, stack: str, job: JobId, **given: Any) -> JobReport:
        self.queries.append((job, given))
        run = JobRun(job="5", raw="5", state="FAILED", exit_code=7)
        return JobReport(
            "5", (RunReport(run, JobCause("it ended with exit code 7", (ENTRY,))),), (run,), merge(stack, None, None, self.nodes, 9)
        )

    def follow(self, stack: str, query: LogQuery, on_entry: Any, on_remark: Any) -> None:
        self.queries.append(query)
        on_entry(ENTRY)
        on_remark("worker1: not followed: no response")


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Stack:
    found = Stack()
    monkeypatch.setattr(logs, "query_logs", found.query)
    monkeypatch.setattr(job_logs, "query_job", found.job)
    monkeypatch.setattr(log_stream, "follow_logs", found.follow)
    return found


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def once(*arguments: str) -> CliResult:
        return run_cli(monkeypatch, capsys, "logs", "lab", *arguments)

    return once


def test_entries_are_printed_and_remarks_are_not_among_them(stack: Stack, run: Run) -> None:
    stack.nodes.append(NodeLogs("worker1", reason="no response over SSH"))
    found = run(
        "--node", "worker0", "--node", "login", "--unit", "slurmd", "--priority", "err", "--grep", "x", "--since", "2h", "--lines", "7"
    )
    assert found.code == 3
    assert found.out.endswith("worker0 slurmd: error: \\x1b[31mx\n") and found.out.count("\n") == 1
    assert found.err == "! worker1: not read: no response over SSH\n"
    (query,) = stack.queries
    assert (query.nodes, query.units, query.priority, query.grep, query.lines) == (("worker0", "login"), ("slurmd",), 3, "x", 7)


def test_all_nodes_answered_is_0(stack: Stack, run: Run) -> None:
    stack.nodes.append(NodeLogs("worker1", reason="declared out", is_out=True))
    found = run("--json")
    assert (found.code, found.err) == (0, "")
    assert json.loads(found.out)["entries"][0]["message"] == ENTRY.message


def test_default_window_is_an_hour(stack: Stack, run: Run) -> None:
    run()
    assert stack.queries[0].since is not None and stack.queries[0].until is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--since", "tomorrow"), "--since: `tomorrow` is not a time"),
        (("--priority", "eror"), "did you mean `err`?"),
        (("--job", "x"), "--job: `x` is not a job ID of Slurm"),
        (("--job", "5", "--unit", "a"), "--job: cannot be combined with --unit"),
        (("--follow", "--since", "1h"), "--follow: cannot be combined with --since"),
    ],
)
def test_invalid_options_are_refused_before_a_node_is_asked(stack: Stack, run: Run, options: tuple[str, ...], words: str) -> None:
    found = run(*options)
    assert (found.code, words in found.err, stack.queries) == (2, True, [])


def test_job_has_a_summary_above_its_entries(stack: Stack, run: Run) -> None:
    found = run("--job", "5.0", "--lines", "9")
    lines = found.out.splitlines()
    assert (found.code, stack.queries[0][0]) == (0, JobId("5", "0"))
    assert lines[:2] == ["job 5, partition -: FAILED", "  cause     it ended with exit code 7"]
    assert lines[2].startswith("  evidence  ") and lines[3] == "" and lines[4].endswith("worker0 slurmd: error: \\x1b[31mx")


def test_job_of_nodes_without_answer_is_undetermined(stack: Stack, run: Run) -> None:
    stack.nodes = [NodeLogs("worker0", reason="no response over SSH")]
    assert run("--job", "5").code == 3
    assert json.loads(run("--job", "5", "--json").out)["job"]["runs"][0]["cause"] == "it ended with exit code 7"


def test_followed_entries_are_lines(stack: Stack, run: Run) -> None:
    found = run("--follow", "--json")
    assert json.loads(found.out)["unit"] == "slurmd"
    assert found.err == "! worker1: not followed: no response\n"
