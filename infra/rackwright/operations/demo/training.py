"""A training run on a stack with Slurm: submitted as an ordinary user, followed to its end, judged against an undisturbed run."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rackwright.checks.cluster.probes.slurm import expand
from rackwright.drivers import node_kill, power, remote_exec
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.files import write_atomic
from rackwright.inventory import paths
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.demo.prerequisites import TrainingSite, find_site
from rackwright.report import demo_records, store
from rackwright.report import training as report
from rackwright.report.training import Run
from rackwright.time_limits import slowness
from rackwright.workloads.training import batches
from rackwright.workloads.training_job import TrainingJob, run_files

Progress = Callable[[str], Awaitable[None]]
_POLL: Final = 2.0
"""Seconds between two queries of the jobs; a query is one squeue and one read of the event files."""
_DARK: Final = 20.0
"""Seconds for which a killed worker stays off, as in the measured runs (docs/workloads.md)."""
_LONGEST: Final = 3600.0
"""Seconds after which a run is cancelled: 200 steps on two busy cores take 40."""
_ANSWER: Final = 60.0
"""Seconds for a request: two commands of Slurm, each with a limit of 20 s, and the copy of 12 files."""
_CHUNK_MIB: Final = 64
"""MiB of the declared size that a file of MooseFS takes, however small it is (docs/workloads.md)."""
_CHECKPOINT_MIB: Final = 12
"""MiB of a checkpoint: 10.8 MB for 875,264 weights and their two moments."""
_MISSING: Final = 3
"""Queries without a job and without an end, after which a run counts as ended: a follow-up job is submitted before its predecessor ends."""
KEEP: Final = 3
"""Checkpoints that a run keeps."""


@dataclass(frozen=True)
class TrainingOptions:
    """What the user asked for."""

    mode: str = "ddp"
    steps: int = 200
    seed: int = 1
    nodes: int | None = None
    kill_worker: bool = False

    @property
    def every(self) -> int:
        """Return the steps between two checkpoints: five in a run."""
        return max(1, self.steps // 5)


@dataclass
class _Following:
    """A run in progress."""

    running: RunningStack
    site: TrainingSite
    job: TrainingJob
    submitted: float = 0.0
    clock: float = 0.0
    """Time of the last answer, by the clock of the submitting node."""
    lines: list[dict[str, Any]] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    injected: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""

    async def ask(self, action: str, **more: Any) -> dict[str, Any]:
        """Return the answer of the submitting node. Raises RackwrightError if there is none."""
        request = {"action": action, "folder": self.job.run, "name": self.job.name, **more}
        name, sudo = self.site.submit_host, self.running.inventory.needs_sudo(self.site.submit_host)
        limit = _ANSWER * await asyncio.to_thread(slowness)
        return await remote_exec.run_as_user(self.running.name, "training_run", request, name, self.site.user, sudo=sudo, limit=limit)

    @property
    def step(self) -> int:
        """Return the last step that was trained."""
        return next((int(line["step"]) for line in reversed(self.lines) if line["event"] == "step"), 0)

    @property
    def has_ended(self) -> bool:
        """Return whether a job wrote that the run is complete or given up."""
        return any(line["event"] in ("end", "gave-up") and "job" in line for line in self.lines)


def train(stack: str, options: TrainingOptions, on_progress: Progress, say: Callable[[str], None]) -> dict[str, Any]:
    """Train on all workers of a stack; return the document rackwright.demo/1, which is recorded, too. At Ctrl-C the jobs are cancelled.

    Raises InputError if the stack is not up or lacks a prerequisite, UndeterminedError if the jobs cannot be submitted or followed.
    """
    running = RunningStack.of(stack)
    site = find_site(running.inventory, nodes=options.nodes, kill_worker=options.kill_worker)
    name = f"train-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.urandom(2).hex()}"
    following = _Following(running, site, _job(site, options, name))
    started = datetime.now(UTC)
    try:
        asyncio.run(_run(following, options, on_progress, say))
    except KeyboardInterrupt:
        raise UndeterminedError("interrupted; its jobs are cancelled", path=f"run {name}") from None
    document = _document(following, options, name, started)
    _record(stack, document, say)
    return document


def records(stack: str) -> Iterator[dict[str, Any]]:
    """Yield the recorded training runs of a stack, the newest first."""
    return demo_records.records(paths.demos(stack), "train")


def _job(site: TrainingSite, options: TrainingOptions, name: str) -> TrainingJob:
    return TrainingJob(
        name=f"rackwright-{name}",
        run=f"{site.mount}/validation/results/{name}",
        python=site.python,
        partition=site.partition,
        minutes=site.minutes,
        nodes=site.nodes,
        ranks_per_node=site.ranks_per_node,
        gpus_per_node=site.gpus,
        network=site.network,
        mode=options.mode,
        steps=options.steps,
        batch=batches.batch_size(site.ranks),
        seed=options.seed,
        every=options.every,
        keep=KEEP,
        join_timeout_s=20 * min(slowness(), 6),
    )


def needed_mib(site: TrainingSite) -> int:
    """Return the free space for the checkpoints that are kept and the one being written."""
    return (KEEP + 1) * ((site.ranks + 2) * _CHUNK_MIB if site.file_system == "moosefs" else _CHECKPOINT_MIB)


async def _run(following: _Following, options: TrainingOptions, on_progress: Progress, say: Callable[[str], None]) -> None:
    """Submit the job while the nodes are powered on, and follow it; cancel what runs if this is interrupted."""
    stack = following.running.name
    async with power.wake_nodes(stack, power.from_inventory(paths.inventory(stack)), on_progress):
        await _submit(following)
        say(f"run {following.job.name}: job submitted as {following.site.user}; its folder is {following.job.run}")
        fault = asyncio.create_task(_kill_worker(following, options, say)) if options.kill_worker else None
        try:
            await _follow(following, on_progress, say)
        except BaseException:
            await asyncio.shield(following.ask("cancel"))
            raise
        finally:
            if fault is not None:
                fault.cancel()
                await asyncio.gather(fault, return_exceptions=True)
                await _start_again(following)


async def _submit(following: _Following) -> None:
    needed = needed_mib(following.site)
    answer = await following.ask("begin", files=run_files(following.job), needed_mib=needed)
    if answer["error"]:
        raise UndeterminedError(f"the job could not be submitted: {answer['error']}", path=f"stack {following.running.name}")
    if answer["job"] is None:
        found = f"{answer['free_mib']} MiB are free on {following.site.mount} (expected {needed} MiB for checkpoints)"
        raise InputError(found, path=f"stack {following.running.name}", hint="increase `size` of the file system, or delete files")
    following.submitted = following.clock = answer["submitted"]


async def _follow(following: _Following, on_progress: Progress, say: Callable[[str], None]) -> None:
    """Read events until the run has ended, no job is left, or the time limit has passed."""
    missing, silent_since, deadline = 0, 0.0, time.monotonic() + _LONGEST
    while not following.has_ended and missing < _MISSING:
        if time.monotonic() > deadline:
            following.error = f"no end after {_LONGEST:.0f} s; the jobs are cancelled"
            await following.ask("cancel")
            return
        await asyncio.sleep(_POLL)
        try:
            answer = await following.ask("follow", offsets=following.offsets)
        except RackwrightError as error:
            answer = {"error": str(error)}
        if answer["error"]:  # slurmctld may restart; a run outlives that
            silent_since = silent_since or time.monotonic()
            if time.monotonic() - silent_since > _LONGEST / 10:
                raise UndeterminedError(f"jobs cannot be followed: {answer['error']}", path=f"run {following.job.name}")
            continue
        silent_since = 0.0
        _take(following, answer, say)
        missing = 0 if answer["jobs"] or answer["lines"] else missing + 1
        await on_progress(_progress(following, answer["jobs"]))
    await _read_rest(following, say)
    if not any(line["event"] == "end" and "job" in line for line in following.lines):
        following.error = await _reason(following)


async def _read_rest(following: _Following, say: Callable[[str], None]) -> None:
    """Read what was written between the reads of two files: the batch script may have ended after the ranks' events were read."""
    while True:
        answer = await following.ask("follow", offsets=following.offsets)
        if answer["error"] or not answer["lines"]:
            return
        _take(following, answer, say)


def _take(following: _Following, answer: dict[str, Any], say: Callable[[str], None]) -> None:
    following.lines += answer["lines"]
    following.offsets, following.clock = answer["offsets"], answer["now"]
    for line in answer["lines"]:
        if line["event"] in ("failed", "superseded", "gave-up") and "job" in line:
            say(f"attempt {line['attempt']} (job {line['job']}): {line['event']}")
        elif line["event"] == "resume" and line["step"]:
            say(f"attempt {line['attempt']}: resumed from step {line['step']}")
            for name in line["damaged"]:
                say(f"attempt {line['attempt']}: passed over {name}, whose digests do not agree")
        elif line["event"] == "start" and line["blas"] == "reference":
            say("the workers use the reference BLAS, which is about 40 times slower: install libopenblas0-pthread")
    for job in answer["released"]:
        say(f"job {job}: was to wait for the lifetime of a credential; started now")


def _progress(following: _Following, jobs: list[dict[str, str]]) -> str:
    states = ", ".join(f"job {job['id']} {job['state']}" + (f" ({job['reason']})" if job["state"] == "PENDING" else "") for job in jobs)
    return f"step {following.step}/{following.job.steps}: {states or 'no job'}"


async def _reason(following: _Following) -> str:
    """Return the last line of the job's output, which says why there is no end."""
    try:
        text = str((await following.ask("output"))["text"])
    except RackwrightError as error:
        return str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "error:" in line]
    return (errors or lines or ["its jobs ended and wrote no reason"])[-1][:400]


async def _kill_worker(following: _Following, options: TrainingOptions, say: Callable[[str], None]) -> None:
    """Kill the job's last worker at a random step after the first checkpoint, and start it again; the first one runs the batch script."""
    at = random.Random(time.time_ns()).randint(options.every + 1, max(options.every + 1, options.steps * 3 // 4))
    while following.step < at:
        await asyncio.sleep(_POLL / 4)
    stack, target = following.running.name, following.running.inventory.target
    begun = next(line for line in reversed(following.lines) if line["event"] == "begin")
    used = set(expand(str(begun["nodes"])))
    node = [name for name in following.site.workers if name in used][-1]
    following.injected.append({"kind": "kill-worker", "node": node, "step": following.step, "at": time.time(), "undone": None})
    await node_kill.kill(stack, target, node)
    say(f"{node}: killed after step {following.step}")
    await asyncio.sleep(_DARK)
    await _start_again(following)
    say(f"{node}: started again")


async def _start_again(following: _Following) -> None:
    """Start the killed worker, in every case: the cluster is left as it was found."""
    for one in following.injected:
        if one["undone"] is None:
            await node_kill.start(following.running.name, following.running.inventory.target, one["node"])
            one["undone"] = time.time()


def _document(following: _Following, options: TrainingOptions, name: str, started: datetime) -> dict[str, Any]:
    job, declared = following.job, following.running.inventory
    settings = {
        "mode": job.mode,
        "nodes": job.nodes,
        "ranks": following.site.ranks,
        "steps": job.steps,
        "batch": job.batch,
        "seed": job.seed,
        "every": job.every,
    }
    ends = [float(line["time"]) for line in following.lines if line["event"] in ("end", "gave-up")]
    run = Run(settings, following.lines, following.submitted, max(ends, default=following.clock))
    identity = {
        "stack": following.running.name,
        "target": declared.target,
        "run": name,
        "user": following.site.user,
        "folder": job.run,
        "started": started.isoformat(timespec="seconds"),
        "evidence": _evidence(following),
    }
    document = report.document_of(run, identity, following.injected)
    earlier = list(records(following.running.name))
    reference = next((one for one in earlier if report.is_undisturbed(one) and report.is_comparable(document, one)), None)
    verdict = report.judge(document, reference)
    comparable = [one for one in earlier if report.is_undisturbed(one)] if report.is_undisturbed(document) else []
    return {**document, "efficiency": report.efficiency(document, comparable), "verdict": verdict, "error": following.error}


def _evidence(following: _Following) -> list[str]:
    first = next((line for line in following.lines if line["event"] == "start"), {})
    simulated = sorted(following.running.inventory.simulated)
    return [
        *([f"{first['device']}, {first['backend']}, PyTorch {first['torch']}"] if first else []),
        *(f"simulated: {name}" for name in simulated),
        *(["figures do not apply to GPUs"] if not following.site.gpus else []),
    ]


def _record(stack: str, document: dict[str, Any], say: Callable[[str], None]) -> Path:
    folder = paths.demos(stack)
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / f"{document['run']}.json"
    write_atomic(file, json.dumps(document, indent=2) + "\n")
    try:
        store.write_html(paths.folder(stack))
    except RackwrightError as error:  # The run has its record; the page is written again by the next run of checks.
        say(str(error))
    return file
