"""Running jobs, and samples of their processes, as the programs slurm_running and job_samples return them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean
from typing import Any, Final

from rackwright.printable import printable

_STOPPED: Final = ("do_freezer_trap", "refrigerator", "__refrigerator", "do_signal_stop")
"""Waits of frozen and stopped processes (Linux, kernel/cgroup/freezer.c, kernel/freezer.c, kernel/signal.c)."""
_SLEEPS: Final = ("hrtimer_nanosleep", "do_nanosleep", "common_nsleep")
"""Waits in a sleep (Linux, kernel/time)."""
_STORAGE: Final = (
    *(
        "request_wait_answer",
        "fuse_",
        "nfs",
        "rpc_wait",
        "cl_",
        "ptlrpc",
        "ll_",
        "osc_",
        "ldlm_",
        "io_schedule",
        "folio_wait",
        "wait_on_page",
    ),
    *("bit_wait_io", "blk_", "jbd2", "xfs_", "ext4_", "balance_dirty", "filemap_", "wait_on_buffer", "__wait_on_buffer", "wb_wait"),
)
"""First parts of waits in a file system or block device. That of FUSE, request_wait_answer, was measured; the others are names of Linux and
Lustre."""


class Wait(StrEnum):
    """What a main thread does in a sample."""

    RUNS = "runs"
    OTHERS = "waits in a futex"
    """Waits for another thread, and through it for other ranks: gloo's ranks in a collective do."""
    STOPPED = "is stopped"
    SLEEPS = "sleeps"
    STORAGE = "waits for storage"
    OTHER = "waits for something else"
    HIDDEN = "is hidden"


def classify(seen: str) -> Wait:
    """Return what a sample means.

    >>> classify("S futex_wait_queue_me"), classify("T do_signal_stop"), classify("D ?"), classify("S ?")
    (<Wait.OTHERS: 'waits in a futex'>, <Wait.STOPPED: 'is stopped'>, <Wait.HIDDEN: 'is hidden'>, <Wait.HIDDEN: 'is hidden'>)
    """
    state, _, wait = seen.partition(" ")
    if state in ("R", "I"):
        return Wait.RUNS
    if state == "T" or wait in _STOPPED:
        return Wait.STOPPED
    if wait in ("", "?"):
        return Wait.HIDDEN
    if wait.startswith("futex_"):
        return Wait.OTHERS
    if wait in _SLEEPS:
        return Wait.SLEEPS
    return Wait.STORAGE if wait.startswith(_STORAGE) else Wait.OTHER


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that has nodes."""

    raw: str
    """Number by which nodes know it."""
    job: str
    user: str
    uid: int
    state: str
    started: float | None
    nodes: tuple[str, ...]
    partition: str = ""
    tres: str = ""
    """GRES of each node that were requested, or of the whole job, as squeue writes them."""
    name: str = ""

    @property
    def asks_for_gpus(self) -> bool:
        """Return whether it has GPUs."""
        return "gpu" in self.tres


def read_jobs(answer: Mapping[str, Any]) -> tuple[RunningJob, ...]:
    """Return the jobs in the answer of the program slurm_running."""
    return tuple(
        RunningJob(
            *(str(one["raw"]), str(one["id"]), str(one["user"]), int(one["uid"]), str(one["state"]), one["started"], tuple(one["nodes"])),
            partition=str(one["partition"]),
            tres="" if one["tres"] == "N/A" else str(one["tres"]),
            name=printable(str(one["name"])),
        )
        for one in answer["jobs"]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """Readings of a GPU; means of those that the driver could give."""

    uuid: str
    index: str
    busy: float | None
    """Percent of the time in which a kernel ran."""
    power: float | None
    limit: float | None
    """Watts that the driver allows."""

    @property
    def power_share(self) -> float | None:
        """Return the share of the allowed power."""
        return self.power / self.limit if self.power is not None and self.limit else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSample:
    """Samples of the main thread of one rank."""

    node: str
    pid: int
    job: str
    step: str
    source: str
    rank: int | None
    size: int | None
    command: str
    samples: int
    waits: Mapping[str, int]
    seconds: float
    ended: bool
    cpu: float | None = None
    run_delay: float | None = None
    read: int | None = None
    written: int | None = None
    gpus: tuple[GpuSample, ...] = ()

    def share(self, *waits: Wait) -> float:
        """Return the share of samples in one of the states."""
        return sum(number for seen, number in self.waits.items() if classify(seen) in waits) / self.samples if self.samples else 0.0

    @property
    def delay_share(self) -> float | None:
        """Return the share of the time in which it was ready to run and had no CPU."""
        return self.run_delay / self.seconds if self.run_delay is not None and self.seconds > 0 else None

    @property
    def moved(self) -> int:
        """Return the bytes that its system calls read and wrote; those of mapped files do not count (proc(5))."""
        return (self.read or 0) + (self.written or 0)

    @property
    def cpu_share(self) -> float | None:
        """Return the CPU seconds of the process in a second."""
        return self.cpu / self.seconds if self.cpu is not None and self.seconds > 0 else None

    @property
    def title(self) -> str:
        """Return `rank 3 on worker1 (pid 4711)`."""
        name = f"rank {self.rank}" if self.rank is not None else f"`{printable(self.command)}`"
        return f"{name} on {self.node} (pid {self.pid})"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTotals:
    """All processes of a job on one node."""

    processes: int
    ended: int
    cpu: float
    seconds: float
    stopped: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSample:
    """What one node saw."""

    node: str
    ranks: tuple[RankSample, ...]
    jobs: Mapping[str, JobTotals]
    gpus: tuple[GpuSample, ...] = ()
    gpus_read: bool = False
    """Whether GPUs, and the processes on them, were read."""
    gpu_error: str = ""
    network: int | None = None
    fabric: int | None = None
    errors: tuple[str, ...] = field(default=())


def read_node(node: str, answer: Mapping[str, Any]) -> NodeSample:
    """Return the answer of the program job_samples. Raises KeyError, TypeError or ValueError for an answer of another form."""
    gpus = {one["uuid"]: _gpu(one) for one in answer["gpus"]}
    return NodeSample(
        node=node,
        ranks=tuple(
            RankSample(node=node, **{**one, "gpus": tuple(gpus[uuid] for uuid in one["gpus"] if uuid in gpus)}) for one in answer["ranks"]
        ),
        jobs={job: JobTotals(**{**one, "stopped": tuple(one["stopped"])}) for job, one in answer["jobs"].items()},
        gpus=tuple(gpus.values()),
        gpus_read=bool(answer["apps"]),
        gpu_error=str(answer["gpu_error"]),
        network=answer["network"],
        fabric=answer["fabric"],
        errors=tuple(str(one) for one in answer["errors"]),
    )


def _gpu(one: Mapping[str, Any]) -> GpuSample:
    means = {key: fmean(known) if (known := [value for value in one[key] if value is not None]) else None for key in ("busy", "power")}
    return GpuSample(uuid=one["uuid"], index=one["index"], limit=one["limit"], **means)
