"""Why a job ended, as data, JSON and lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from rackwright.report.logs.document import LogEntry, LogReport
from rackwright.report.logs.job_cause import JobCause, duration
from rackwright.report.logs.job_record import JobRun
from rackwright.report.logs.terminal import flat, line


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run and its cause."""

    run: JobRun
    cause: JobCause


@dataclass(frozen=True, slots=True)
class JobReport:
    """A job: its runs whose logs were read, all runs, the entries, and what is missing."""

    job: str
    reports: tuple[RunReport, ...]
    runs: tuple[JobRun, ...]
    logs: LogReport
    remarks: tuple[str, ...] = ()

    @property
    def is_determined(self) -> bool:
        """Return whether Slurm has a record of the job, and each node answered."""
        return bool(self.reports) and not self.logs.unanswered

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it: a document of logs with the job in `job`."""
        runs = [
            {
                **asdict(one.run),
                "nodes": list(one.run.nodes),
                "steps": [asdict(step) for step in one.run.steps],
                "cause": one.cause.text,
                "evidence": [entry.as_dict() for entry in one.cause.evidence],
                "also": [entry.as_dict() for entry in one.cause.also],
            }
            for one in self.reports
        ]
        return {**self.logs.as_dict(), "job": {"job": self.job, "runs": runs, "remarks": list(self.remarks)}}


def summary(report: JobReport) -> Iterator[str]:
    """Yield the lines above the entries: for each run its state and cause, the evidence, its time, nodes and output."""
    if len(report.runs) > 1:
        states = Counter(run.state for run in report.runs)
        yield f"job {report.job}: {len(report.runs)} runs: {', '.join(f'{number} {state}' for state, number in states.most_common())}"
    for one in report.reports:
        yield from _run(one.run, one.cause)


def _run(run: JobRun, cause: JobCause) -> Iterator[str]:
    who = f" of {run.user}" if run.user else ""
    where = f", account {run.account}" if run.account else ""
    yield f"job {run.job}{f' ({flat(run.name)})' if run.name else ''}{who}{where}, partition {run.partition or '-'}: {run.state}"
    yield f"  cause     {flat(cause.text)}"
    if cause.evidence:
        yield from (f"  evidence  {_short(entry)}" for entry in cause.evidence)
    elif run.has_failed:
        yield "  evidence  the record of Slurm; no line of the logs that were read names it"
    if times := list(_times(run)):
        yield f"  time      {', '.join(times)}"
    if run.nodes:
        yield f"  nodes     {', '.join(run.nodes)}"
    for path in dict.fromkeys(path for path in (run.output, run.error_output) if path):
        yield f"  output    {flat(path)}"
    yield from (f"  also      {_short(entry)}" for entry in cause.also)


def _times(run: JobRun) -> Iterator[str]:
    if run.submitted:
        yield f"submitted {_clock(run.submitted)}"
    if run.started:
        waited = f" after {duration(run.started - run.submitted)}" if run.submitted and run.started >= run.submitted else ""
        yield f"started {_clock(run.started)}{waited}"
    if run.ended:
        ran = f" after {duration(run.ended - run.started)}" if run.started and run.ended >= run.started else ""
        limit = f" of at most {duration(run.limit_s)}" if run.limit_s and ran else ""
        yield f"ended {_clock(run.ended)}{ran}{limit}"
    if run.restarts:
        yield f"restarted {run.restarts} time{'s' if run.restarts > 1 else ''}"


def _clock(time: float) -> str:
    return datetime.fromtimestamp(time).isoformat(sep=" ", timespec="seconds")


def _short(entry: LogEntry) -> str:
    return line(entry)[:400]
