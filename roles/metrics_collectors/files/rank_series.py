"""Samples of the ranks of jobs as series of Prometheus, and back: `ranks` writes them on workers, `jobs` reads those of all nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rackwright_metrics import Samples

from rackwright.report.jobs.samples import GpuSample, JobTotals, NodeSample, RankSample, Wait, classify

MOST_RANKS = 64
"""Ranks of a job on a node whose samples are written. Chosen: eight for each of eight GPUs, which bounds the series of a node."""
MOST_STOPPED = 8
"""Stopped processes of a job on a node that are written: as many as the evidence of a finding names."""
SEEN = {
    Wait.RUNS: "R",
    Wait.OTHERS: "S futex_wait",
    Wait.STOPPED: "T do_signal_stop",
    Wait.SLEEPS: "S hrtimer_nanosleep",
    Wait.STORAGE: "D io_schedule",
    Wait.OTHER: "S poll",
    Wait.HIDDEN: "S ?",
}
"""A sample of each kind, as the kernel writes it. The label holds the kind: names of kernel functions would be one series each."""
NODE = {
    "rackwright_ranks_sampled_timestamp_seconds": "When the processes of jobs were sampled, seconds since 1970",
    "rackwright_ranks_jobs_left_out": "Jobs of the node whose processes were not sampled, or have more ranks than are written",
    "rackwright_ranks_errors": "Users whose processes could not be sampled",
    "rackwright_ranks_gpus_read": "Whether GPUs and the processes on them were read",
    "rackwright_ranks_gpus_failed": "Whether GPUs should have been read and were not",
    "rackwright_ranks_fabric_bytes": "Bytes that InfiniBand ports moved while processes were sampled",
}
JOB = {
    "rackwright_job_processes": "Processes of a job on the node",
    "rackwright_job_cpu_seconds": "CPU seconds of all processes of a job while they were sampled",
    "rackwright_job_sampled_seconds": "Seconds for which processes of a job were sampled",
    "rackwright_job_process_stopped": "A process of a job that was stopped at the first and the last sample",
}
RANK = {
    "rackwright_rank_samples": "Samples of the main thread of a rank, by what it did",
    "rackwright_rank_seconds": "Seconds for which a rank was sampled",
    "rackwright_rank_ended": "Whether a rank ended while it was sampled",
    "rackwright_rank_cpu_seconds": "CPU seconds of a rank while it was sampled",
    "rackwright_rank_run_delay_seconds": "Seconds in which a rank was ready to run and had no CPU",
    "rackwright_rank_moved_bytes": "Bytes that system calls of a rank read and wrote",
    "rackwright_rank_gpu_busy_percent": "Time in which a kernel ran on a GPU of a rank",
    "rackwright_rank_gpu_power_watts": "Power draw of a GPU of a rank",
    "rackwright_rank_gpu_power_limit_watts": "Power that the driver allows a GPU of a rank",
}
Series = tuple[Mapping[str, str], float]
"""Labels, with `__name__` and `instance`, and a value."""


class Taken(NamedTuple):
    """What one node wrote."""

    time: float
    """Clock of the node when its samples began."""
    node: NodeSample


def add_node(node: NodeSample, began: float, left_out: int, samples: Samples) -> None:
    """Add what a node saw. A job with more ranks than MOST_RANKS is left out as a whole: without some, ranks would seem to be missing."""
    for name, text in {**NODE, **JOB, **RANK}.items():
        samples.describe(name, text)
    large = {job for job in node.jobs if sum(one.job == job for one in node.ranks) > MOST_RANKS}
    samples.set("rackwright_ranks_sampled_timestamp_seconds", round(began, 3))
    samples.set("rackwright_ranks_jobs_left_out", left_out + len(large))
    samples.set("rackwright_ranks_errors", len(node.errors))
    samples.set("rackwright_ranks_gpus_read", node.gpus_read)
    samples.set("rackwright_ranks_gpus_failed", bool(node.gpu_error))
    if node.fabric is not None:
        samples.set("rackwright_ranks_fabric_bytes", node.fabric)
    for job, total in node.jobs.items():
        if job not in large:
            _add_job(job, total, samples)
    for one in node.ranks:
        if one.job not in large:
            _add_rank(one, samples)


def _add_job(job: str, total: JobTotals, samples: Samples) -> None:
    samples.set("rackwright_job_processes", total.processes, jobid=job)
    samples.set("rackwright_job_cpu_seconds", total.cpu, jobid=job)
    samples.set("rackwright_job_sampled_seconds", total.seconds, jobid=job)
    for pid in total.stopped[:MOST_STOPPED]:
        samples.set("rackwright_job_process_stopped", 1, jobid=job, pid=str(pid))


def _add_rank(one: RankSample, samples: Samples) -> None:
    place = {"jobid": one.job, "step": one.step, "pid": str(one.pid), "rank": "" if one.rank is None else str(one.rank)}
    counts = dict.fromkeys(Wait, 0)
    for seen, number in one.waits.items():
        counts[classify(seen)] += number
    kind = {"source": one.source, "size": "" if one.size is None else str(one.size)}
    for wait, number in counts.items():
        if number:
            samples.set("rackwright_rank_samples", number, **place, **kind, does=wait.value)
    values = {
        "rackwright_rank_seconds": one.seconds,
        "rackwright_rank_ended": 1 if one.ended else None,
        "rackwright_rank_cpu_seconds": one.cpu,
        "rackwright_rank_run_delay_seconds": one.run_delay,
        "rackwright_rank_moved_bytes": one.moved,
    }
    for name, value in values.items():
        if value is not None:
            samples.set(name, value, **place)
    for gpu in one.gpus:
        readings = {"busy_percent": gpu.busy, "power_watts": gpu.power, "power_limit_watts": gpu.limit}
        for name, reading in readings.items():
            if reading is not None:
                samples.set(f"rackwright_rank_gpu_{name}", reading, **place, gpu=gpu.index)


class _Node:
    """Values of one node by name, job and process."""

    def __init__(self) -> None:
        self.single: dict[str, float] = {}
        self.jobs: dict[str, dict[str, float]] = {}
        self.stopped: dict[str, list[int]] = {}
        self.places: dict[tuple[str, str], dict[str, str]] = {}
        self.waits: dict[tuple[str, str], dict[str, int]] = {}
        self.ranks: dict[tuple[str, str], dict[str, float]] = {}
        self.gpus: dict[tuple[str, str], dict[str, dict[str, float]]] = {}

    def add(self, labels: Mapping[str, str], value: float) -> None:
        """Add a series; those of other metrics are left out."""
        name, job = labels["__name__"], labels.get("jobid", "")
        key = (job, labels.get("pid", ""))
        if name in NODE:
            self.single[name] = value
        elif name == "rackwright_job_process_stopped":
            self.stopped.setdefault(job, []).append(int(labels["pid"]))
        elif name in JOB:
            self.jobs.setdefault(job, {})[name] = value
        elif name == "rackwright_rank_samples":
            self.places.setdefault(key, {}).update(labels)
            self.waits.setdefault(key, {})[SEEN[Wait(labels["does"])]] = int(value)
        elif name.startswith("rackwright_rank_gpu_") and name in RANK:
            self.gpus.setdefault(key, {}).setdefault(labels["gpu"], {})[name.removeprefix("rackwright_rank_gpu_")] = value
        elif name in RANK:
            self.places.setdefault(key, {}).update(labels)
            self.ranks.setdefault(key, {})[name.removeprefix("rackwright_rank_")] = value

    def sample(self, node: str) -> NodeSample:
        """Return the values as the judgement reads them."""
        fabric = self.single.get("rackwright_ranks_fabric_bytes")
        return NodeSample(
            node=node,
            ranks=tuple(self._rank(node, key) for key in self.ranks),
            jobs={job: self._job(job, values) for job, values in self.jobs.items()},
            gpus_read=self.single.get("rackwright_ranks_gpus_read") == 1,
            gpu_error="nvidia-smi failed" if self.single.get("rackwright_ranks_gpus_failed") else "",
            fabric=None if fabric is None else int(fabric),
            errors=("processes of a user could not be sampled",) * int(self.single.get("rackwright_ranks_errors", 0)),
        )

    def _job(self, job: str, values: Mapping[str, float]) -> JobTotals:
        return JobTotals(
            processes=int(values["rackwright_job_processes"]),
            ended=0,
            cpu=values["rackwright_job_cpu_seconds"],
            seconds=values["rackwright_job_sampled_seconds"],
            stopped=tuple(sorted(self.stopped.get(job, ()))),
        )

    def _rank(self, node: str, key: tuple[str, str]) -> RankSample:
        place, values, waits = self.places[key], self.ranks[key], self.waits.get(key, {})
        gpus = (
            GpuSample(uuid="", index=index, busy=one.get("busy_percent"), power=one.get("power_watts"), limit=one.get("power_limit_watts"))
            for index, one in sorted(self.gpus.get(key, {}).items())
        )
        return RankSample(
            node=node,
            pid=int(key[1]),
            job=key[0],
            step=place.get("step", ""),
            source=place.get("source", ""),
            rank=int(place["rank"]) if place.get("rank") else None,
            size=int(place["size"]) if place.get("size") else None,
            command="process",
            samples=sum(waits.values()),
            waits=waits,
            seconds=values.get("seconds", 0.0),
            ended="ended" in values,
            cpu=values.get("cpu_seconds"),
            run_delay=values.get("run_delay_seconds"),
            read=int(values.get("moved_bytes", 0)),
            written=0,
            gpus=tuple(gpus),
        )


def read_nodes(series: Iterable[Series]) -> dict[str, Taken]:
    """Return what each node wrote. Raise KeyError or ValueError for series that `add_node` does not write."""
    nodes: dict[str, _Node] = {}
    for labels, value in series:
        nodes.setdefault(labels["instance"], _Node()).add(labels, value)
    when = "rackwright_ranks_sampled_timestamp_seconds"
    return {name: Taken(one.single[when], one.sample(name)) for name, one in nodes.items() if when in one.single}
