"""A demo's jobs or pods: submitted as an ordinary user, followed to their end, cancelled if the command is interrupted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from rackwright.drivers import power, remote_exec
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.demo.images import require_images
from rackwright.operations.demo.prerequisites import TrainingSite
from rackwright.time_limits import slowness

Progress = Callable[[str], Awaitable[None]]
Say = Callable[[str], None]
POLL: Final = 2.0
"""Seconds between two queries of the jobs; a query is one squeue and one read of the event files."""
_LONGEST: Final = 3600.0
"""Seconds without a new event after which a run is cancelled: jobs may wait in a queue; 200 steps on two busy cores take 40."""
_ANSWER: Final = 60.0
"""Seconds for a request: two commands of Slurm, each with a limit of 20 s, and the copy of 12 files."""
_CANCELLED: Final = 90.0
"""Seconds in which cancelled jobs must have left the queue: Slurm asks a node that does not respond again after 50 s (ADR 43)."""
_MISSING: Final = 3
"""Queries without a job and without an end, after which a run counts as ended: a follow-up job is submitted before its predecessor ends."""


class Job(Protocol):
    """What all jobs of a run have in common."""

    @property
    def name(self) -> str:
        """Name of all jobs of the run; no other run has it."""

    @property
    def run(self) -> str:
        """Folder of the run on the shared file system."""

    @property
    def steps(self) -> int:
        """Steps of the run."""


@dataclass
class Following:
    """A run in progress."""

    running: RunningStack
    site: TrainingSite
    job: Job
    submitted: float = 0.0
    clock: float = 0.0
    """Time of the last answer, by the clock of the submitting node."""
    lines: list[dict[str, Any]] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    error: str = ""
    left: str = ""
    """After an interruption: why jobs may still run. Empty if none is left."""
    program: str = ""
    """Program that answers requests on the submitting node; default: that of training."""

    async def ask(self, action: str, **more: Any) -> dict[str, Any]:
        """Return the answer of the submitting node. Raises RackwrightError if there is none."""
        request = {"action": action, "folder": self.job.run, "name": self.job.name, **more}
        request |= {"namespace": self.site.pods.namespace} if self.site.pods else {}
        name, sudo = self.site.submit_host, self.running.inventory.needs_sudo(self.site.submit_host)
        limit = _ANSWER * await asyncio.to_thread(slowness)
        return await remote_exec.run_as_user(
            self.running.name, self.program or self.site.program, request, name, self.site.user, sudo=sudo, limit=limit
        )

    @property
    def unit(self) -> str:
        """Return what a run consists of."""
        return "pod" if self.site.pods else "job"

    @property
    def cancellation(self) -> str:
        """Return the command that ends the run by hand."""
        if self.site.pods:
            return f"kubectl -n {self.site.pods.namespace} delete trainjob {self.job.name}"
        return f"scancel --name {self.job.name}"

    @property
    def step(self) -> int:
        """Return the last step that was trained."""
        return next((int(line["step"]) for line in reversed(self.lines) if line["event"] == "step"), 0)

    @property
    def completed(self) -> bool:
        """Return whether a job wrote that the run is complete."""
        return any(line["event"] == "end" and "job" in line for line in self.lines)

    @property
    def has_ended(self) -> bool:
        """Return whether a job wrote that the run is complete or given up."""
        return any(line["event"] in ("end", "gave-up") and "job" in line for line in self.lines)


async def run_jobs(
    following: Following,
    files: Mapping[str, str],
    needed_mib: int,
    on_progress: Progress,
    say: Say,
    fault: AbstractAsyncContextManager[None],
    objects: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Submit the first job while the nodes are powered on, and follow the run; cancel all jobs if this is interrupted.

    objects: what is created on Kubernetes, and deleted at the end of the run.
    fault: is entered when the job is submitted, and undoes on exit what it did to nodes.
    Raises InputError without enough space or without an image that no registry has, UndeterminedError if the jobs cannot be submitted or
    followed.
    """
    stack = following.running.name
    async with power.wake_nodes(stack, power.from_inventory(paths.inventory(stack)), on_progress):
        try:
            for remark in await require_images(following.running, following.site):
                say(remark)
            await _submit(following, files, needed_mib, objects)
            say(f"run {following.job.name}: {following.unit}s submitted as {following.site.user}; its folder is {following.job.run}")
            async with fault:
                await _follow(following, on_progress, say)
            if following.site.pods:
                await following.ask("cancel")
        except (asyncio.CancelledError, KeyboardInterrupt):
            await _cancel(following, on_progress)
            raise
        except UndeterminedError:
            await following.ask("cancel")
            raise


async def _submit(following: Following, files: Mapping[str, str], needed_mib: int, objects: Sequence[Mapping[str, Any]]) -> None:
    """Submit the job. An interruption waits for the answer: a job that is submitted after the cancellation would stay."""
    request = asyncio.ensure_future(
        following.ask("begin", files=dict(files), needed_mib=needed_mib, **({"objects": list(objects)} if objects else {}))
    )
    try:
        answer = await asyncio.shield(request)
    except asyncio.CancelledError:
        await asyncio.wait((request,))
        raise
    if answer["error"]:
        raise UndeterminedError(f"the {following.unit}s could not be submitted: {answer['error']}", path=f"stack {following.running.name}")
    if answer["job"] is None:
        found = f"{answer['free_mib']} MiB are free on {following.site.mount} (expected {needed_mib} MiB for the run's files)"
        hint = f"delete folders of earlier runs in {following.job.run.rpartition('/')[0]}, or increase `size` of the file system"
        raise InputError(found, path=f"stack {following.running.name}", hint=hint)
    following.submitted = following.clock = answer["submitted"]


async def _cancel(following: Following, on_progress: Progress) -> None:
    """Cancel the jobs until none is left; record in the run what may be left."""
    following.left = "the cancellation was interrupted"
    deadline = time.monotonic() + _CANCELLED * await asyncio.to_thread(slowness)
    while True:
        try:
            answer = await following.ask("cancel")  # Again each time: a script may just have submitted its successor.
            answer = answer if answer["error"] else await following.ask("follow", offsets=following.offsets)
        except RackwrightError as error:
            answer = {"error": str(error)}
        states = ", ".join(f"{following.unit} {job['id']} is {job['state']}" for job in answer.get("jobs", ()))
        following.left = answer["error"] or states
        if not following.left or time.monotonic() > deadline:
            return
        await on_progress(f"cancelling: {following.left}")
        await asyncio.sleep(POLL)


def interrupted(following: Following, undone: str = "") -> UndeterminedError:
    """Return the error of an interrupted run, which says what was left. `undone`: what was done about faults."""
    job, site = following.job, following.site
    what = f"its {following.unit}s"
    jobs = f"{what} may still run ({following.left})" if following.left else f"{what} are cancelled"
    hint = f"files stay in {job.run}"
    if following.left:
        hint = f"run `{following.cancellation}` as {site.user} on {site.submit_host}; {hint}"
    cause = "; ".join(part for part in (f"interrupted after step {following.step} of {job.steps}", jobs, undone) if part)
    return UndeterminedError(cause, path=f"run {job.name}", hint=hint)


async def _follow(following: Following, on_progress: Progress, say: Say) -> None:
    """Read events until the run has ended, no job is left, or none came for too long."""
    missing, silent_since, deadline = 0, 0.0, time.monotonic() + _LONGEST
    while not following.has_ended and missing < _MISSING:
        if time.monotonic() > deadline:
            following.error = f"no event for {_LONGEST:.0f} s; the {following.unit}s are cancelled"
            await following.ask("cancel")
            return
        await asyncio.sleep(POLL)
        try:
            answer = await following.ask("follow", offsets=following.offsets)
        except RackwrightError as error:
            answer = {"error": str(error)}
        if answer["error"]:  # slurmctld may restart; a run outlives that
            silent_since = silent_since or time.monotonic()
            if time.monotonic() - silent_since > _LONGEST / 10:
                raise UndeterminedError(f"{following.unit}s cannot be followed: {answer['error']}", path=f"run {following.job.name}")
            continue
        silent_since = 0.0
        _take(following, answer, say)
        deadline = time.monotonic() + _LONGEST if answer["lines"] else deadline
        missing = 0 if answer["jobs"] or answer["lines"] else missing + 1
        await on_progress(_progress(following, answer["jobs"]))
    await _read_rest(following, say)
    if not following.completed:
        following.error = await _reason(following)


async def _read_rest(following: Following, say: Say) -> None:
    """Read what was written between the reads of two files: the batch script may have ended after the ranks' events were read."""
    while True:
        answer = await following.ask("follow", offsets=following.offsets)
        if answer["error"] or not answer["lines"]:
            return
        _take(following, answer, say)


def _take(following: Following, answer: dict[str, Any], say: Say) -> None:
    following.lines += answer["lines"]
    following.offsets, following.clock = answer["offsets"], answer["now"]
    for line in answer["lines"]:
        if line["event"] in ("failed", "time-limit", "superseded", "gave-up") and "job" in line:
            say(f"attempt {line['attempt']} (job {line['job']}): {line['event']}")
        elif line["event"] == "resume" and line["step"]:
            say(f"attempt {line['attempt']}: resumed from step {line['step']}")
        elif line["event"] == "start" and line["blas"] == "reference":
            say("the workers use the reference BLAS, which is about 40 times slower: install libopenblas0-pthread")
        for name in line.get("damaged", ()):
            say(f"attempt {line['attempt']}: passed over {name}, whose digests do not agree")
    for job in answer["released"]:
        say(f"job {job}: was to wait for the lifetime of a credential; started now")


def _progress(following: Following, jobs: list[dict[str, str]]) -> str:
    unit = following.unit
    states = ", ".join(f"{unit} {job['id']} {job['state']}" + (f" ({job['reason']})" if job["state"] == "PENDING" else "") for job in jobs)
    return f"step {following.step}/{following.job.steps}: {states or f'no {unit}'}"


async def _reason(following: Following) -> str:
    """Return the last line of the job's output, which says why there is no end."""
    try:
        text = str((await following.ask("output"))["text"])
    except RackwrightError as error:
        return str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "error:" in line]
    return (errors or lines or [f"its {following.unit}s ended and wrote no reason"])[-1][:400]
