"""A training run on Slurm or Kubernetes: submitted as an ordinary user, followed to its end, judged against an undisturbed run."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from rackwright.checks.cluster.probes.slurm import expand
from rackwright.drivers import node_kill, remote_exec
from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.demo.following import POLL, Following, Progress, Say, interrupted, run_jobs
from rackwright.operations.demo.prerequisites import TrainingSite, find_site
from rackwright.operations.demo.recording import identify, record, run_name
from rackwright.report import demo_records
from rackwright.report import training as report
from rackwright.report.training import Run
from rackwright.time_limits import slowness
from rackwright.workloads.training import batches
from rackwright.workloads.training_job import TrainingJob, run_files
from rackwright.workloads.training_pods import pod_files, run_objects

_DARK: Final = 20.0
"""Seconds for which a killed worker stays off, as in the measured runs (docs/workloads/training-slurm.md)."""
CHUNK_MIB: Final = 64
"""MiB of the declared size that a file of MooseFS takes, however small it is (docs/workloads/training-slurm.md)."""
_CHECKPOINT_MIB: Final = 12
"""MiB of a checkpoint: 10.8 MB for 875,264 weights and their two moments."""
_FAR: Final = 100
"""Steps between two checkpoints of a long run, at most: 12 to 40 s on two cores, where a checkpoint takes 0.1 to 0.3 s (docs/chaos.md)."""
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
    kill_rank: bool = False

    @classmethod
    def of(cls, **given: Any) -> TrainingOptions:
        """Return the options with defaults for those that are None."""
        return cls(**{name: value for name, value in given.items() if value is not None})

    @property
    def every(self) -> int:
        """Return the steps between two checkpoints: five checkpoints in a short run, more in a long one."""
        return min(max(1, self.steps // 5), _FAR)


def train(stack: str, options: TrainingOptions, on_progress: Progress, say: Say) -> dict[str, Any]:
    """Train on all workers of a stack; return the document rackwright.demo/1, which is recorded, too. At Ctrl-C the jobs are cancelled.

    Raises InputError if the stack is not up or lacks a prerequisite, UndeterminedError if the jobs cannot be submitted or followed.
    """
    running = RunningStack.of(stack)
    site = find_site(running.inventory, nodes=options.nodes, kill_worker=options.kill_worker)
    name = run_name("train")
    following = Following(running, site, job := _job(site, options, name))
    fault = WorkerFault(following, options, say)
    started = datetime.now(UTC)
    files = pod_files(job) if site.pods else run_files(job)
    objects = run_objects(job, site.pods) if site.pods else []
    try:
        asyncio.run(run_jobs(following, files, needed_mib(site), on_progress, say, fault, objects))
    except KeyboardInterrupt:
        raise interrupted(following, fault.state) from None
    document = _document(following, job, fault, name, started)
    record(stack, document, say)
    return document


def records(stack: str) -> Iterator[dict[str, Any]]:
    """Yield the recorded training runs of a stack, the newest first."""
    return demo_records.records(paths.demos(stack), "train")


def _job(site: TrainingSite, options: TrainingOptions, name: str) -> TrainingJob:
    return TrainingJob(
        name=f"rackwright-{name}".lower() if site.pods else f"rackwright-{name}",  # Names of Kubernetes have no capital letters.
        run=f"{site.folder}/{name}",
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
    return (KEEP + 1) * ((site.ranks + 2) * CHUNK_MIB if site.file_system == "moosefs" else _CHECKPOINT_MIB)


class WorkerFault:
    """The requested kill of the last worker, or of a rank on it, at a random step; undone when the context is left, in every case."""

    def __init__(self, following: Following, options: TrainingOptions, say: Say) -> None:
        self._following, self._options, self._say = following, options, say
        self._task: asyncio.Task[None] | None = None
        self.injected: list[dict[str, Any]] = []

    async def __aenter__(self) -> None:
        """Start to wait for the step."""
        if self._options.kill_worker or self._options.kill_rank:
            self._task = asyncio.create_task(self._kill())

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Start a worker that is still off: the cluster is left as it was found."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            await self._start_again()
        except RackwrightError as error:
            if kind is None:
                raise
            self._say(str(error))  # What ended the run goes on: its jobs must be cancelled.

    @property
    def state(self) -> str:
        """Return what was done to a worker, and whether it runs again; empty if nothing was."""
        states = [
            f"{one['node']}, which was killed, is started again"
            if one["undone"] is not None
            else f"{one['node']} was killed and not started again: run `rackwright up {self._following.running.name}`"
            for one in self.injected
            if one["kind"] == "kill-worker"
        ]
        return "; ".join(states)

    async def _kill(self) -> None:
        """Kill after the first checkpoint, and start a killed worker again; the first worker runs the batch script, or hosts rank 0."""
        every, steps, following = self._options.every, self._options.steps, self._following
        at = random.Random(time.time_ns()).randint(every + 1, max(every + 1, steps * 3 // 4))
        while following.step < at:
            await asyncio.sleep(POLL / 4)
        begun = next(line for line in reversed(following.lines) if line["event"] == "begin")
        node = _nodes(following, str(begun["nodes"]))[-1]
        if self._options.kill_rank:
            return await self._kill_rank(node)
        self.injected.append({"kind": "kill-worker", "node": node, "step": following.step, "at": time.time(), "undone": None})
        await node_kill.kill(following.running.name, following.running.inventory.target, node)
        self._say(f"{node}: killed after step {following.step}")
        await asyncio.sleep(_DARK)
        await self._start_again()
        self._say(f"{node}: started again")
        return None

    async def _kill_rank(self, node: str) -> None:
        """Kill a rank of the run on a worker; report it if there is none."""
        following = self._following
        running, requests = following.running, {node: {"folder": following.job.run}}
        step, sudo = following.step, {node: running.inventory.needs_sudo(node)}
        found, failed = await remote_exec.run_on_nodes(running.name, "kill_rank", requests, sudo, target=running.inventory.target)
        if failed or found[node]["pid"] is None:
            self._say(f"{node}: no rank was killed: {failed.get(node, 'no rank of the run is there')}")
            return
        self.injected.append({"kind": "kill-rank", "node": node, "step": step, "at": time.time(), "undone": time.time()})
        self._say(f"{node}: a rank was killed after step {step}")

    async def _start_again(self) -> None:
        """Start the killed worker."""
        for one in self.injected:
            if one["undone"] is None:
                await node_kill.start(self._following.running.name, self._following.running.inventory.target, one["node"])
                one["undone"] = time.time()


def _nodes(following: Following, told: str) -> list[str]:
    """Return the nodes of an attempt in the order of their ranks, from Slurm's host list or the nodes of the pods."""
    if following.site.pods:
        return told.split(",")
    used = set(expand(told))
    return [name for name in following.site.workers if name in used]


def _document(following: Following, job: TrainingJob, fault: WorkerFault, name: str, started: datetime) -> dict[str, Any]:
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
    identity = identify(following, name, started)
    document = report.document_of(run, identity, fault.injected)
    earlier = list(records(following.running.name))
    reference = next((one for one in earlier if report.is_undisturbed(one) and report.is_comparable(document, one)), None)
    verdict = report.judge(document, reference)
    comparable = [one for one in earlier if report.is_undisturbed(one)] if report.is_undisturbed(document) else []
    return {**document, "efficiency": report.efficiency(document, comparable), "verdict": verdict, "error": following.error}
