"""Why a job of Slurm ended: its record, and the log lines of its nodes and of the controllers within its time."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rackwright.drivers import remote_exec, ssh_connections
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.logs import REACH, Request, ask, pattern
from rackwright.report.logs import job_cause
from rackwright.report.logs.document import LogEntry, NodeLogs, merge
from rackwright.report.logs.job_document import JobReport, RunReport
from rackwright.report.logs.job_record import JobId, JobRun, read_runs
from rackwright.time_limits import slowness

_COMMAND: Final = 15.0
"""Seconds for one command of Slurm on a node of usual speed: sacct waits for a slurmdbd that does not answer."""
_BEFORE: Final = 60.0
"""Seconds before the start of a run whose lines are shown: the prolog, and what its nodes did shortly before."""
_AFTER: Final = 120.0
"""Seconds after its end: a node that is lost is reported after SlurmdTimeout, and the epilog."""
_LEAD: Final = 15.0
"""Seconds before the start for which lines of its nodes are shown that name no job; the prolog has begun by then."""
_TRAIL: Final = 15.0
"""Seconds after the end for which they are shown."""
_RUNS: Final = 8
"""Runs whose logs are read. An array may have thousands of tasks; those that failed come first."""
_LOOKBACK: Final = 30 * 86400.0
"""Seconds for which lines of a job without a record are searched."""
_DAEMONS: Final = ("slurmctld", "slurmd", "slurmdbd", "slurmstepd", "kernel")
_NODE_STATE: Final = r"not responding|setting DOWN|on failed node|[Dd]rain|DRAIN|unexpectedly rebooted|state set to|returned to service"
_DAEMON_STATE: Final = (
    r"(?i)prolog|epilog|health|slurmd (?:version|started)|shutdown|^Start(?:ed|ing) |^Stopp(?:ed|ing) |Main process exited|Failed"
)
_ALLOCATED: Final = re.compile(r"(?:NodeList=|Started JobId=\S+ in \S+ on )(\S+)")


@dataclass(frozen=True, slots=True)
class _Record:
    """What a controller knows of a job, or why none of them answered."""

    runs: tuple[JobRun, ...] = ()
    remarks: tuple[str, ...] = ()
    unknown: bool = False
    """Whether Slurm answered, and has no record of the job."""
    accounting: bool = True


def query_job(stack: str, job: JobId, *, grep: str = "", lines: int = 1000, since: float | None = None) -> JobReport:
    """Return why a job ended, or what it waits for, with the lines that prove it.

    since: how far back lines of a job are searched of which Slurm has no record any more; default: 30 days.

    Raises InputError if the stack is not up or does not run Slurm, and for a job that neither Slurm nor a log knows; UndeterminedError if
    no controller answers, and at Ctrl-C.
    """
    running = RunningStack.of(stack)
    scheduler = running.inventory.cluster.get("scheduler") or {}
    if scheduler.get("kind") != "slurm":
        raise InputError("has no jobs of Slurm", path=f"stack {stack}", hint="pass `--pod NAMESPACE/NAME` for a job of Kubernetes")
    found = pattern(grep) if grep else ""
    try:
        return asyncio.run(_query(running, job, grep=found, lines=lines, since=since))
    except KeyboardInterrupt:
        raise UndeterminedError("interrupted", path=f"stack {stack}") from None


async def _query(running: RunningStack, job: JobId, *, grep: str, lines: int, since: float | None) -> JobReport:
    scheduler = running.inventory.cluster["scheduler"]
    controllers = [name for name in scheduler["controllers"] if name in running.inventory.nodes]
    record = await _record(running, job, controllers, accounting=bool(scheduler.get("accounting")))
    if record.unknown:
        return await _without_record(running, job, controllers, record, lines=lines, since=since)
    runs = [run for run in record.runs if not job.step or any(step.name == job.step for step in run.steps)] or list(record.runs)
    chosen = sorted(runs, key=lambda run: (run.has_failed, run.submitted or 0.0))[-_RUNS:]
    chosen = [run for run in runs if run in chosen]
    answers = await _read_logs(running, chosen, controllers, grep)
    answers = [replace(node, entries=tuple(one for one in node.entries if grep or _is_relevant(chosen, one))) for node in answers]
    entries = sorted((entry for node in answers for entry in node.entries), key=lambda entry: entry.time)
    reports = [_report(run, entries, last=run is chosen[-1]) for run in chosen]
    remarks = [*record.remarks, *_remarks(running, job, record.runs, chosen)]
    return JobReport(job.text, tuple(reports), tuple(runs), merge(running.name, None, None, answers, lines), tuple(remarks))


async def _record(running: RunningStack, job: JobId, controllers: Sequence[str], *, accounting: bool) -> _Record:
    """Ask one controller after the other for the job."""
    lost = await ssh_connections.connect_all(running.name, controllers, within=REACH)
    limit = 5 * _COMMAND * await asyncio.to_thread(slowness)
    reasons = [f"{name}: {why}" for name, why in lost.items()]
    for name in (one for one in controllers if one not in lost):
        request = {name: {"job": job.job, "seconds": _COMMAND}}
        sudo = {name: running.inventory.needs_sudo(name)}
        target = running.inventory.target
        answers, failed = await remote_exec.run_on_nodes(running.name, "slurm_job", request, sudo, target=target, limit=limit)
        if name in failed:
            reasons.append(f"{name}: {failed[name]}")
            continue
        return _judged(answers[name], reasons, accounting=accounting)
    hint = f"run `rackwright logs {running.name} --unit slurmctld --grep {job.job}` for the lines of the nodes that answer"
    raise UndeterminedError("\n".join(["no controller answers:", *reasons]), path=f"job {job.text}", hint=hint)


def _judged(answer: Mapping[str, Any], reasons: Sequence[str], *, accounting: bool) -> _Record:
    runs = read_runs(answer)
    no_job = "Invalid job id" in answer["scontrol_error"]
    remarks = list(reasons)
    if accounting and answer["sacct"]:
        remarks.append(f"the accounting does not answer, so earlier runs and the exit codes of steps are missing: {answer['sacct']}")
    if answer["scontrol_error"] and not no_job:
        remarks.append(f"slurmctld does not answer: {answer['scontrol_error']}")
    determined = no_job and not (accounting and answer["sacct"])
    return _Record(runs, tuple(remarks), not runs, accounting and determined)


async def _read_logs(running: RunningStack, runs: Sequence[JobRun], controllers: Sequence[str], grep: str) -> list[NodeLogs]:
    """Read the controllers and the nodes of the runs, each within the time in which the runs used it."""
    now = time.time()
    every = [*running.inventory.nodes, *running.inventory.out]
    names = dict.fromkeys([*controllers, *(name for run in runs for name in run.nodes if name in every)])
    spans: dict[str, tuple[float, float]] = {}
    for run in runs:
        begin = (run.started or run.submitted or now) - _BEFORE
        end = (run.ended or now) + _AFTER
        for name in (*controllers, *run.nodes):
            first = min(begin, (run.submitted or begin) - 5) if name in controllers else begin
            low, high = spans.get(name, (first, end))
            spans[name] = (min(low, first), max(high, end))
    groups: dict[tuple[float, float], list[str]] = {}
    for name in names:
        groups.setdefault(spans[name], []).append(name)
    request = Request("journal", _request(runs, grep))
    found: list[NodeLogs] = []
    for (since, until), members in groups.items():
        found += await ask(running, members, [request], since=since, until=until)
    return found


def _request(runs: Sequence[JobRun], grep: str) -> dict[str, Any]:
    """Return the request for lines of runs, and for lines of their nodes that matter to every job."""
    names = "|".join(dict.fromkeys(re.escape(name) for run in runs for name in (run.raw, run.job)))
    rules = [
        ["", job_cause.job_pattern(names)],
        ["^kernel$", job_cause.HARDWARE],
        ["^slurmctld$", _NODE_STATE],
        ["^slurmd$", _DAEMON_STATE],
    ]
    return {"rules": [["", grep]] if grep else rules, "units": list(_DAEMONS), "priority": None, "lines": 5000, "files": True}


def _is_relevant(runs: Sequence[JobRun], entry: LogEntry) -> bool:
    return any(job_cause.is_relevant(run, entry, before=_LEAD, after=_TRAIL) for run in runs)


def _report(run: JobRun, entries: Sequence[LogEntry], *, last: bool) -> RunReport:
    """Return a run with its cause, from the entries of its own time: a job that was requeued has lines of other runs."""
    begin, end = (run.submitted or run.started or 0.0) - 5, (run.ended or time.time()) + _AFTER
    nodes = {*run.nodes}
    own = [
        entry
        for entry in entries
        if begin <= entry.time <= (time.time() if last and not run.is_over else end)
        and (entry.node in nodes or entry.unit in ("slurmctld", "slurmdbd"))
        and (entry.unit != "kernel" or entry.time >= (run.started or begin) - 5)
    ]
    return RunReport(run, job_cause.explain(run, own))


def _remarks(running: RunningStack, job: JobId, runs: Sequence[JobRun], chosen: Sequence[JobRun]) -> Iterable[str]:
    gone = {name for run in chosen for name in run.nodes} - {*running.inventory.nodes, *running.inventory.out}
    if gone:
        yield f"{', '.join(sorted(gone))}: no longer part of the stack, so their lines are missing"
    if len(chosen) < len(runs):
        yield f"logs of {len(chosen)} of {len(runs)} runs were read, failed ones first; pass one, for example `--job {chosen[-1].job}`"
    if job.step and not any(step.name == job.step for run in runs for step in run.steps):
        yield f"step {job.step} is not on record; the whole job is shown"


async def _without_record(
    running: RunningStack, job: JobId, controllers: Sequence[str], record: _Record, *, lines: int, since: float | None
) -> JobReport:
    """Search the controllers' logs for a job that Slurm has no record of, then the nodes that they name."""
    from rackwright.checks.cluster.probes.slurm import expand

    begin = since if since is not None else time.time() - _LOOKBACK
    run = JobRun(job=job.job, raw=job.job, state="UNKNOWN")
    asked = {**_request([run], ""), "rules": [["", job_cause.ids(run)]]}
    answers = await ask(running, controllers, [Request("journal", asked)], since=begin, until=None)
    entries = [entry for node in answers for entry in node.entries]
    if not entries and not record.remarks and all(node.answered for node in answers):
        where = "slurmctld, the accounting and the logs have" if record.accounting else "slurmctld and the logs have"
        raise InputError(f"{where} no such job", path=f"job {job.text}", hint="run `sacct` or `squeue` on a login node for a list of jobs")
    nodes: set[str] = set()
    for text in {found[1].rstrip(",") for entry in entries if (found := _ALLOCATED.search(entry.message))}:
        try:
            nodes.update(expand(text))
        except ValueError:
            continue
    names = [name for name in (*running.inventory.nodes, *running.inventory.out) if name in nodes and name not in controllers]
    if names:
        times = sorted(entry.time for entry in entries)
        placed = replace(run, nodes=tuple(sorted(nodes)), started=times[0], ended=times[-1])
        request = Request("journal", _request([placed], ""))
        answers += await ask(running, names, [request], since=times[0] - _BEFORE, until=times[-1] + _AFTER)
    why = "Slurm has no record of it any more; its state is unknown, and these are the lines that name it"
    remarks = (*record.remarks, why if entries else "no line names it")
    return JobReport(job.text, (), (), merge(running.name, begin, None, answers, lines), remarks)
