"""`rackwright jobs`: options, what is on which stream, and exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.cli import CliResult, Run, run_cli

from rackwright.operations import running_jobs
from rackwright.report.jobs.document import JobsReport
from rackwright.report.jobs.samples import RunningJob
from rackwright.report.jobs.suspicion import Diagnosis, Finding, Kind

JOB = RunningJob("7", "7", "alice", 2001, "RUNNING", 940.0, ("worker0",), name="train")
FOUND = Finding(kind=Kind.STOPPED, job="7", evidence="it is stopped\x1b[31m", node="worker0", rank=1, pid=4711)


class Stack:
    """The jobs of a stack, and the queries that it received."""

    def __init__(self) -> None:
        self.queries: list[Any] = []
        self.jobs: tuple[RunningJob, ...] = (JOB,)
        self.diagnosis = Diagnosis(job=JOB)

    def query(self, stack: str, *, job: str, seconds: float | None) -> JobsReport:
        self.queries.append((stack, job, seconds))
        return JobsReport(stack, 1000.0, self.jobs, seconds, (self.diagnosis,) if seconds else (), ("login1: no response",))


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Stack:
    found = Stack()
    monkeypatch.setattr(running_jobs, "query_jobs", found.query)
    return found


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def once(*arguments: str) -> CliResult:
        return run_cli(monkeypatch, capsys, "jobs", "lab", *arguments)

    return once


def test_table_lists_jobs(stack: Stack, run: Run) -> None:
    found = run()
    assert (found.code, stack.queries, found.err) == (0, [("lab", "", None)], "! login1: no response\n")
    assert found.out.splitlines()[1].split() == ["7", "train", "alice", "-", "RUNNING", "1", "min", "worker0"]


def test_no_job_is_stated(stack: Stack, run: Run) -> None:
    stack.jobs = ()
    found = run()
    assert (found.out, found.err.splitlines()[0]) == ("", "! no job has nodes")


def test_findings_follow_table(stack: Stack, run: Run) -> None:
    stack.diagnosis = Diagnosis(job=JOB, findings=(FOUND,))
    found = run("--suspicious", "--job", "7")
    assert (found.code, stack.queries) == (1, [("lab", "7", 7.5)])
    assert "stopped: rank 1 on worker0 (pid 4711): it is stopped\\x1b[31m" in found.out and "kill -CONT 4711" in found.out


def test_undetermined_job_has_exit_code_3(stack: Stack, run: Run) -> None:
    stack.diagnosis = Diagnosis(job=JOB, undetermined=("worker0: no response over SSH",))
    found = run("--suspicious", "--seconds", "30")
    assert (found.code, stack.queries[0][2]) == (3, 30.0)
    assert "could not be determined: worker0: no response over SSH" in found.out and " undetermined" in found.out


def test_json_is_a_document(stack: Stack, run: Run) -> None:
    stack.diagnosis = Diagnosis(job=JOB, findings=(FOUND,))
    found = run("--suspicious", "--json")
    assert json.loads(found.out)["jobs"][0]["findings"][0]["kind"] == "stopped" and found.code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seconds", "10"), "--seconds: needs --suspicious"),
        (("--job", "x"), "--job: `x` is not a job ID of Slurm"),
        (("--job", "7.0"), "--job: `7.0` is a step"),
        (("--suspicious", "--seconds", "1"), "seconds"),
    ],
)
def test_wrong_options_are_refused(stack: Stack, run: Run, arguments: tuple[str, ...], message: str) -> None:
    found = run(*arguments)
    assert found.code == 2 and message in found.err and stack.queries == []
