"""The jobs of a stack with what is suspicious about them, as JSON and as lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from rackwright.printable import printable
from rackwright.report.jobs.samples import RankSample, RunningJob
from rackwright.report.jobs.suspicion import Diagnosis, Finding
from rackwright.report.logs.job_cause import duration

SCHEMA: Final = "rackwright.jobs/1"


@dataclass(frozen=True, slots=True)
class JobsReport:
    """The running jobs of a stack."""

    stack: str
    time: float
    """Clock of the controller that listed the jobs, in seconds since 1970."""
    jobs: tuple[RunningJob, ...]
    seconds: float | None = None
    """Seconds for which processes were sampled; None if they were not."""
    diagnoses: tuple[Diagnosis, ...] = ()
    """One for each job, if processes were sampled."""
    remarks: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return 1 if a job is suspicious, 3 if none is and one could not be determined, else 0."""
        verdicts = {one.verdict for one in self.diagnoses}
        return 1 if "suspicious" in verdicts else 3 if "undetermined" in verdicts else 0

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        known = {one.job.raw: one for one in self.diagnoses}
        jobs = [{**_job(job), **(_diagnosis(known[job.raw]) if job.raw in known else {})} for job in self.jobs]
        head = {"schema": SCHEMA, "stack": self.stack, "time": self.time, "seconds": self.seconds, "scheduler": "slurm"}
        return {**head, "jobs": jobs, "remarks": list(self.remarks)}


def _job(job: RunningJob) -> dict[str, Any]:
    return {**asdict(job), "nodes": list(job.nodes)}


def _diagnosis(found: Diagnosis) -> dict[str, Any]:
    findings = [{**asdict(one), "kind": one.kind.value, "remedy": one.remedy} for one in found.findings]
    ranks = [_rank(one) for one in found.ranks]
    return {"verdict": found.verdict, "findings": findings, "undetermined": list(found.undetermined), "ranks": ranks}


def _rank(one: RankSample) -> dict[str, Any]:
    keys = (
        "node",
        "pid",
        "step",
        "source",
        "rank",
        "size",
        "command",
        "samples",
        "seconds",
        "ended",
        "cpu",
        "run_delay",
        "read",
        "written",
    )
    return {**{key: getattr(one, key) for key in keys}, "waits": dict(one.waits), "gpus": [asdict(gpu) for gpu in one.gpus]}


def heads(report: JobsReport) -> list[str]:
    """Return the heads of the table of jobs."""
    return ["job", "name", "user", "partition", "state", "time", "nodes", *(["verdict"] if report.diagnoses else [])]


def rows(report: JobsReport) -> list[list[object]]:
    """Return the rows of the table of jobs."""
    verdicts = {one.job.raw: one.verdict for one in report.diagnoses}
    return [
        [
            *(job.job, job.name[:32], job.user, job.partition, job.state, _age(report, job), list(job.nodes[:4]) + _more(job)),
            *([verdicts[job.raw]] if job.raw in verdicts else []),
        ]
        for job in report.jobs
    ]


def _age(report: JobsReport, job: RunningJob) -> str:
    return duration(max(0.0, report.time - job.started)) if job.started else ""


def _more(job: RunningJob) -> list[str]:
    return [f"and {len(job.nodes) - 4} more"] if len(job.nodes) > 4 else []


def lines(report: JobsReport) -> Iterator[str]:
    """Yield what is suspicious and what could not be determined, by job."""
    for one in report.diagnoses:
        if one.verdict == "not suspicious":
            continue
        yield f"job {one.job.job} ({one.job.name}) of {one.job.user}: {one.verdict}"
        for finding in one.findings:
            yield f"  {finding.kind}: {_where(finding)}{printable(finding.evidence)}"
            yield f"    {finding.remedy}"
        yield from (f"  could not be determined: {printable(reason)}" for reason in one.undetermined)


def _where(finding: Finding) -> str:
    """Return `rank 3 on worker1 (pid 4711): `.

    >>> from rackwright.report.jobs.suspicion import Kind
    >>> _where(Finding(kind=Kind.IDLE, job="7", evidence="")), _where(Finding(kind=Kind.MISSING, job="7", evidence="", rank=1))
    ('', 'rank 1: ')
    """
    parts = [
        "" if finding.rank is None else f"rank {finding.rank}",
        f"on {finding.node}" if finding.node else "",
        f"(pid {finding.pid})" if finding.pid is not None else "",
    ]
    text = " ".join(part for part in parts if part)
    return f"{text}: " if text else ""
