"""What sacct and scontrol know of a job, as runs: arrays, heterogeneous jobs, steps, several runs, and texts of users."""

from __future__ import annotations

import doctest
from typing import Any

import pytest

from rackwright.errors import InputError
from rackwright.remote.programs import slurm_job
from rackwright.report.logs import job_record
from rackwright.report.logs.job_record import JobRun, read_job_id, read_runs

FIELDS = [*("JobID", "JobIDRaw", "State", "ExitCode", "Submit", "Start", "End", "TimelimitRaw", "NodeList", "User", "JobName")]
HOSTS = {"w0": ["w0"], "w[0-1]": ["w0", "w1"]}
SHOWN = """JobId={id} {more}JobName={name}
   UserId=alice(2001) GroupId=alice(2001) MCS_label=N/A
   Priority=1 Nice=0 Account=research QOS=normal
   JobState={state} Reason={reason} Dependency=(null)
   Requeue=1 Restarts={restarts} BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:00 TimeLimit=UNLIMITED TimeMin=N/A
   SubmitTime=1795797384 EligibleTime=1795797384
   StartTime=1795797390 EndTime=1795797399 Deadline=N/A
   Partition=gpu AllocNode:Sid=login0:4711
   NodeList=w0
   Comment=JobState=COMPLETED Reason=forged
   Command=/home/alice/a b.sh --x JobState=COMPLETED
   SubmitLine=sbatch a.sh WorkDir=/forged StdOut=/forged.out
   WorkDir=/home/alice
   Extra=StdOut=/forged.out
   StdErr=/home/alice/slurm-{id}.err
   StdOut=/home/alice/slurm-{id}.out
"""


def row(
    job: str, state: str, code: str = "0:0", *, raw: str = "", nodes: str = "w0", name: str = "train", end: str = "1795797399"
) -> list[str]:
    return [job, raw or job, state, code, "1795797384", "1795797390", end, "60", nodes, "alice", name]


def answer(*rows: list[str], shown: str = "", users: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "fields": FIELDS,
        "rows": list(rows),
        "sacct": "",
        "scontrol": shown,
        "scontrol_error": "",
        "hosts": HOSTS,
        "users": users or {},
    }


def shown(**values: Any) -> str:
    return SHOWN.format(**{"id": 5, "more": "", "name": "train", "state": "PENDING", "reason": "Resources", "restarts": 0, **values})


def only(found: tuple[JobRun, ...]) -> JobRun:
    assert len(found) == 1, found
    return found[0]


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(job_record).failed == 0
    assert doctest.testmod(slurm_job).failed == 0


@pytest.mark.parametrize("text", ["", "abc", "12a", "-1", "5_", "5_[1-3]", "5+", "5.x", "5;reboot", "5 6", "٣"])
def test_text_that_is_no_job_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a job ID of Slurm"):
        read_job_id(text)


def test_run_has_steps_times_and_nodes() -> None:
    run = only(
        read_runs(
            answer(
                row("5", "FAILED", "7:0", nodes="w[0-1]"),
                row("5.batch", "FAILED", "7:0"),
                row("5.extern", "COMPLETED"),
                row("5.0", "OUT_OF_MEMORY", "0:125"),
            )
        )
    )
    assert (run.exit_code, run.signal, run.nodes, run.limit_s) == (7, 0, ("w0", "w1"), 3600)
    assert (run.submitted, run.started, run.ended) == (1795797384, 1795797390, 1795797399)
    assert [(step.name, step.state, step.signal) for step in run.steps] == [
        ("batch", "FAILED", 0),
        ("extern", "COMPLETED", 0),
        ("0", "OUT_OF_MEMORY", 125),
    ]


def test_requeued_job_has_two_runs_with_steps_of_their_own() -> None:
    found = read_runs(
        answer(row("5", "REQUEUED"), row("5.batch", "CANCELLED", "0:15"), row("5", "FAILED", "4:0"), row("5.batch", "FAILED", "4:0"))
    )
    assert [(run.state, [step.state for step in run.steps]) for run in found] == [("REQUEUED", ["CANCELLED"]), ("FAILED", ["FAILED"])]


def test_user_who_cancelled_is_named() -> None:
    named = only(read_runs(answer(row("5", "CANCELLED by 2001"), users={"2001": "alice"})))
    gone = only(read_runs(answer(row("5", "CANCELLED by 2009"))))
    assert (named.state, named.cancelled_by, gone.cancelled_by) == ("CANCELLED", "alice", "the user with ID 2009")


def test_times_that_are_unknown_are_none() -> None:
    run = only(
        read_runs(
            answer(["5", "5", "PENDING", "0:0", "1795797384", "Unknown", "Unknown", "Partition_Limit", "None assigned", "alice", "x"])
        )
    )
    assert (run.started, run.ended, run.limit_s, run.nodes, run.is_waiting) == (None, None, None, (), True)


def test_scontrol_completes_what_accounting_lacks() -> None:
    run = only(read_runs(answer(row("5", "PENDING", end="Unknown"), shown=shown(reason="Dependency"))))
    assert (run.reason, run.output, run.error_output) == ("Dependency", "/home/alice/slurm-5.out", "/home/alice/slurm-5.err")


def test_slurmctld_that_is_ahead_of_the_accounting_gives_the_state() -> None:
    run = only(
        read_runs(
            answer(row("5", "RUNNING", end="Unknown"), row("5.batch", "RUNNING"), shown=shown(state="FAILED", reason="NonZeroExitCode"))
        )
    )
    assert (run.state, run.is_over, [step.name for step in run.steps]) == ("FAILED", True, ["batch"])


@pytest.mark.parametrize(
    ("text", "job", "state"),
    [
        (shown(), "5", "PENDING"),
        (shown(more="ArrayJobId=3 ArrayTaskId=4 "), "3_4", "PENDING"),
        (shown(more="ArrayJobId=3 ArrayTaskId=1-9%2 "), "5", "PENDING"),
        (shown(more="HetJobId=4 HetJobOffset=1 "), "4+1", "PENDING"),
        (shown(name="x JobState=COMPLETED Reason=None"), "5", "PENDING"),
        (shown(reason="ReqNodeNotAvail,_UnavailableNodes:w1"), "5", "PENDING"),
        (shown(state="COMPLETING", reason="None"), "5", "COMPLETING"),
        (shown(state="EXPEDITING", reason="None"), "5", "EXPEDITING"),
    ],
    ids=["plain", "task", "waiting tasks", "heterogeneous", "name of a job", "reason", "ending", "requeued before others"],
)
def test_job_of_scontrol_alone(text: str, job: str, state: str) -> None:
    """Names, comments and commands are texts of users, and do not set its state."""
    run = only(read_runs(answer(shown=text)))
    assert (run.job, run.state, run.user, run.is_over) == (job, state, "alice", False)


@pytest.mark.parametrize("text", ["", "slurm_load_jobs error: Invalid job id specified", "No jobs in the system", "JobId=", "JobId=5"])
def test_scontrol_without_job_is_no_run(text: str) -> None:
    assert read_runs(answer(shown=text)) == ()


def test_several_jobs_of_scontrol_are_runs() -> None:
    text = shown(id=7, more="ArrayJobId=7 ArrayTaskId=2 ") + "\n" + shown(id=8, more="ArrayJobId=7 ArrayTaskId=1 ")
    assert [(run.job, run.raw) for run in read_runs(answer(shown=text))] == [("7_2", "7"), ("7_1", "8")]
