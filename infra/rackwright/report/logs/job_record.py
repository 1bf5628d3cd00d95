"""A job of Slurm, as sacct and scontrol record it: its runs and their steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rackwright.errors import InputError

_FORM: Final = re.compile(r"(?P<job>\d+(?:_\d+)?(?:\+\d+)?)(?:\.(?P<step>\d+|batch|extern|interactive)(?:\+\d+)?)?", re.ASCII)
_UNKNOWN: Final = frozenset({"", "0", "None", "Unknown", "(null)", "N/A", "(none)"})
_PAIR: Final = re.compile(r"(?:^   |\s)([A-Z]\w*)=")
_RUNNING: Final = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "COMPLETING", "CONFIGURING", "SIGNALING", "STAGE_OUT", "RESIZING"})
_WAITING: Final = frozenset({"PENDING", "EXPEDITING", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
"""States of a job that is in the queue (Slurm, job_state_codes.html; EXPEDITING from 25.11 on: requeued before all others)."""


@dataclass(frozen=True, slots=True)
class JobId:
    """What a user asks for: a job, a task of an array, a component of a heterogeneous job, or a step of these."""

    job: str
    step: str = ""

    @property
    def text(self) -> str:
        """Return the id as Slurm writes it."""
        return f"{self.job}.{self.step}" if self.step else self.job


def read_job_id(text: str) -> JobId:
    """Return the id; raise InputError for a text that is none.

    >>> read_job_id("123"), read_job_id("123_4.batch"), read_job_id("123+1")
    (JobId(job='123', step=''), JobId(job='123_4', step='batch'), JobId(job='123+1', step=''))
    """
    found = _FORM.fullmatch(text.strip())
    if not found:
        hint = "write 123, 123_4 for a task of an array, 123+1 for a component of a heterogeneous job, 123.0 or 123.batch for a step"
        raise InputError(f"`{text}` is not a job ID of Slurm", path="--job", hint=hint)
    return JobId(found["job"], found["step"] or "")


@dataclass(frozen=True, slots=True)
class JobStep:
    """A step of a run."""

    name: str
    """`batch`, `extern` or a number."""
    state: str
    exit_code: int
    signal: int
    max_memory: str = ""
    """Largest resident memory of a task, as sacct writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One run of a job: a job that was requeued has several, an array one or more for each task. Times are seconds of the epoch."""

    job: str
    raw: str
    """Number by which daemons know it: a task of an array has one of its own."""
    state: str
    cancelled_by: str = ""
    """User who cancelled it."""
    exit_code: int = 0
    signal: int = 0
    derived_exit_code: int = 0
    """Largest exit code of its steps."""
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    limit_s: float | None = None
    nodes: tuple[str, ...] = ()
    reason: str = ""
    failed_node: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    name: str = ""
    restarts: int = 0
    memory: str = ""
    """Memory that was asked for, as sacct writes it."""
    output: str = ""
    error_output: str = ""
    steps: tuple[JobStep, ...] = field(default=())

    @property
    def is_waiting(self) -> bool:
        """Return whether it has not started."""
        return self.state in _WAITING

    @property
    def is_over(self) -> bool:
        """Return whether it has ended."""
        return self.state not in _WAITING | _RUNNING

    @property
    def has_failed(self) -> bool:
        """Return whether it ended in another way than by exit code 0."""
        return self.is_over and self.state != "COMPLETED"


def read_runs(answer: Mapping[str, Any]) -> tuple[JobRun, ...]:
    """Return the runs in the answer of the program slurm_job: those of sacct, completed from scontrol; without any, those of scontrol."""
    users = answer["users"]
    shown = {run.raw: run for run in _from_scontrol(answer["scontrol"], answer["hosts"])}
    runs: list[JobRun] = []
    for cells in answer["rows"]:
        row = dict(zip(answer["fields"], cells, strict=False))
        job, _, step = row["JobID"].partition(".")
        if not step:
            runs.append(_run(row, answer["hosts"], users))
        elif runs and runs[-1].job == job:
            runs[-1] = replace(runs[-1], steps=(*runs[-1].steps, _step(step, row)))
    known = {run.raw for run in runs}
    newest = {run.raw: index for index, run in enumerate(runs)}
    for raw, index in newest.items():
        if raw in shown:
            runs[index] = _completed(runs[index], shown[raw])
    return (*runs, *(run for raw, run in shown.items() if raw not in known))


def _completed(run: JobRun, shown: JobRun) -> JobRun:
    """Return a run with what slurmctld knows and the accounting does not, or not yet."""
    base = replace(shown, steps=run.steps, memory=run.memory) if not run.is_over and shown.is_over else run
    return replace(
        base,
        output=shown.output or run.output,
        error_output=shown.error_output or run.error_output,
        reason=shown.reason if run.is_waiting else run.reason or shown.reason,
        cancelled_by=run.cancelled_by or shown.cancelled_by,
    )


def _run(row: Mapping[str, str], hosts: Mapping[str, list[str]], users: Mapping[str, str]) -> JobRun:
    state, by = _state(row.get("State", ""))
    code, signal = _codes(row.get("ExitCode", ""))
    minutes = row.get("TimelimitRaw", "")
    return JobRun(
        job=row["JobID"],
        raw=row.get("JobIDRaw") or row["JobID"],
        state=state,
        cancelled_by=users.get(by, f"the user with ID {by}") if by else "",
        exit_code=code,
        signal=signal,
        derived_exit_code=_codes(row.get("DerivedExitCode", ""))[0],
        submitted=_time(row.get("Submit", "")),
        started=_time(row.get("Start", "")),
        ended=_time(row.get("End", "")),
        limit_s=int(minutes) * 60 if minutes.isdigit() else None,
        nodes=tuple(hosts.get(row.get("NodeList", ""), ())),
        reason=_known(row.get("Reason", "")),
        failed_node=_known(row.get("FailedNode", "")),
        user=row.get("User", ""),
        account=row.get("Account", ""),
        partition=row.get("Partition", ""),
        name=row.get("JobName", ""),
        restarts=int(row["Restarts"]) if row.get("Restarts", "").isdigit() else 0,
        memory=row.get("ReqMem", ""),
        output=_path(row.get("StdOut", "")),
        error_output=_path(row.get("StdErr", "")),
    )


def _step(name: str, row: Mapping[str, str]) -> JobStep:
    code, signal = _codes(row.get("ExitCode", ""))
    return JobStep(name, _state(row.get("State", ""))[0], code, signal, row.get("MaxRSS", ""))


def _from_scontrol(text: str, hosts: Mapping[str, list[str]]) -> Iterator[JobRun]:
    """Yield the jobs of `scontrol show job`. Its lines are `   Key=value Key=value`; values of users are on lines of their own."""
    for block in re.split(r"\n\s*\n", text):
        fields = _fields(block.splitlines())
        if not fields.get("JobState", ""):
            continue
        task = fields.get("ArrayTaskId", "")
        first = fields.get("HetJobId", "")
        job = fields["JobId"]
        if task.isdigit():
            job = f"{fields.get('ArrayJobId', job)}_{task}"
        elif first:
            job = f"{first}+{fields.get('HetJobOffset', '0')}"
        code, signal = _codes(fields.get("ExitCode", ""))
        yield JobRun(
            job=job,
            raw=fields["JobId"],
            state=fields["JobState"],
            exit_code=code,
            signal=signal,
            derived_exit_code=_codes(fields.get("DerivedExitCode", ""))[0],
            submitted=_time(fields.get("SubmitTime", "")),
            started=_time(fields.get("StartTime", "")) if fields["JobState"] not in _WAITING else None,
            ended=_time(fields.get("EndTime", "")) if fields["JobState"] not in _WAITING | _RUNNING else None,
            nodes=tuple(hosts.get(fields.get("NodeList", ""), ())),
            reason=_known(fields.get("Reason", "")),
            user=fields.get("UserId", "").partition("(")[0],
            account=_known(fields.get("Account", "")),
            partition=fields.get("Partition", ""),
            name=fields.get("JobName", ""),
            restarts=int(fields["Restarts"]) if fields.get("Restarts", "").isdigit() else 0,
            output=_path(fields.get("StdOut", "")),
            error_output=_path(fields.get("StdErr", "")),
        )


_OWN_LINE: Final = (
    *("JobName", "Command", "SubmitLine", "Comment", "AdminComment", "SystemComment", "Extra"),
    *("WorkDir", "StdErr", "StdIn", "StdOut", "Licenses"),
)
"""Keys whose values may contain anything, the names of other keys included: their line has no further pair (Slurm, info_job.c)."""


def _fields(lines: Iterable[str]) -> dict[str, str]:
    """Return the pairs of a job. The first line is `JobId=5 JobName=…`, where the name is the user's text."""
    found: dict[str, str] = {}
    for number, line in enumerate(lines):
        text = line.strip()
        if number == 0:
            head = re.match(r"JobId=(\d+)((?: (?:Array|Het)\w+=\S+)*) JobName=(.*)", text)
            if not head:
                return {}
            found |= {"JobId": head[1], "JobName": head[3]}
            found |= dict(pair.split("=", 1) for pair in head[2].split())
            continue
        key, _, value = text.partition("=")
        if key in _OWN_LINE:
            found.setdefault(key, value)
            continue
        parts = _PAIR.split(f" {text}")[1:]
        for name, content in zip(parts[::2], parts[1::2], strict=False):
            found.setdefault(name, content.strip())
    return found


def _state(text: str) -> tuple[str, str]:
    """Return a state, and the ID of the user who cancelled the job.

    >>> _state("CANCELLED by 2001"), _state("OUT_OF_ME+"), _state("")
    (('CANCELLED', '2001'), ('OUT_OF_MEMORY', ''), ('UNKNOWN', ''))
    """
    state, _, rest = text.strip().partition(" ")
    whole = {"OUT_OF_ME+": "OUT_OF_MEMORY", "CANCELLED+": "CANCELLED"}.get(state, state)
    return whole or "UNKNOWN", rest.removeprefix("by ").strip()


def _codes(text: str) -> tuple[int, int]:
    """Return exit code and signal of `7:0`; 0 for what is not there."""
    code, _, signal = text.partition(":")
    return int(code) if code.isdigit() else 0, int(signal) if signal.isdigit() else 0


def _time(text: str) -> float | None:
    return float(text) if text.isdigit() and text != "0" else None


def _known(text: str) -> str:
    return "" if text in _UNKNOWN else text


def _path(text: str) -> str:
    """Return a path that has no pattern of sbatch left in it."""
    return text if text.startswith("/") and "%" not in text and text != "/dev/null" else ""
