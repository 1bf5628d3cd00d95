"""Which running jobs hang or straggle, and which rank is the reason: pure functions of samples of all nodes of a job.

The shares of futex waits were measured with PyTorch's gloo on CPUs: three ranks, 150 samples in 7.5 s (docs/jobs.md). NCCL was not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rackwright.report.jobs.samples import NodeSample, RankSample, RunningJob, Wait, classify

WAITS_FOR_OTHERS: Final = 0.30
"""Share of futex waits from which a rank waits for another. Measured: 0.05 to 0.25 undisturbed, also under load; 0.30 to 0.41 beside a
rank with half more work in each step; 0.45 to 1.0 beside one that was stopped or slept."""
WORK_RATIO: Final = 1.2
"""Work of a rank in a step, as a multiple of that of the others, above which it straggles: step times that differ by more than 20 %."""
NO_WAITS: Final = 0.02
"""Share of futex waits of every rank, below which ranks do not wait in futexes at all. Measured: 0.05 and more with gloo. Chosen."""
ERRORS: Final = 3.0
"""Standard errors by which the shares of two ranks must differ."""
STOPPED: Final = 0.25
"""Share of samples in which a process is stopped. Half of what was measured for one that is stopped for 100 of every 150 ms."""
NO_CPU: Final = 0.20
"""Seconds in the run queue per second. Measured: 0.26 without a CPU of its own, 0.02 otherwise; 0.2 makes a step a fifth longer."""
IN_STORAGE: Final = 0.90
"""Share of samples in storage from which a rank that moves no byte hangs in it, whatever the others do. Chosen; measured: 1.0."""
ALL_WAIT: Final = 0.90
"""Share of futex waits of every rank, from which a job without CPU time hangs. Chosen; measured beside a stopped rank: 1.0."""
STANDS_STILL: Final = 0.01
"""CPU seconds per second of a whole job, below which its CPU time stands still. Chosen; measured for waiting ranks: 0.00."""
SETTLES: Final = 60.0
"""Seconds after the start of a job, within which prologs and transfers of images may leave it without CPU time. Chosen."""
LEAST_SAMPLES: Final = 50
"""Samples that a rank needs: a third of 150, which sufficed."""
HIDDEN: Final = 0.10
"""Share of samples with an unknown wait, up to which the others prove something. Measured: up to 0.02, of threads that were just woken."""
BUSY: Final = 90.0
"""Percent of the time in which a kernel ran, from which a GPU is busy: kernels of collectives spin while they wait (NVIDIA/nccl 2079)."""
POWER: Final = 0.30
"""Share of the allowed power, below which a busy GPU computes little. Chosen above idle GPUs of a running program (H100: 134 of 700 W,
wilicc/gpu-burn 114) and GPUs that spin in a collective (MI250X: 130 of 560 W, ROCm/rccl 1600)."""
LIBRARIES: Final = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
"""Sources of ranks that all live until the last one ends. Tasks of srun may end before the others."""


class Kind(StrEnum):
    """What is wrong with a job or a rank."""

    STOPPED = "stopped"
    STRAGGLING = "straggling"
    STORAGE = "waits for storage"
    NO_CPU = "no CPU"
    NO_POWER = "GPU busy without power"
    HUNG = "hung"
    MISSING = "rank missing"
    IDLE = "idle allocation"


REMEDIES: Final = {
    Kind.STOPPED: "continue it with `kill -CONT {pid}` on {node}, or cancel the job; find what stopped it (debugger, scheduler)",
    Kind.STRAGGLING: "read its stack on {node} (`py-spy dump --pid {pid}`), and compare clocks and temperature of {node} with its peers",
    Kind.STORAGE: "on {node}, check the mount and the file server (`rackwright verify STACK`); a checkpoint that is written looks the same",
    Kind.NO_CPU: "on {node}, find what else runs (`top`), and compare the job's CPUs with its threads (`taskset -cp {pid}`)",
    Kind.NO_POWER: "read the stacks of all ranks (`py-spy dump`), or the flight recorder of PyTorch (TORCH_NCCL_DUMP_ON_TIMEOUT=1)",
    Kind.HUNG: "read the stacks of all ranks (`py-spy dump --pid {pid}` on {node}): they may be in different collectives",
    Kind.MISSING: "read the output of the job for the rank that ended, then cancel the job",
    Kind.IDLE: "ask its user whether it may be cancelled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something suspicious, with the rank that it is about, if it is one."""

    kind: Kind
    job: str
    evidence: str
    node: str = ""
    rank: int | None = None
    pid: int | None = None

    @property
    def remedy(self) -> str:
        """Return what to do."""
        return REMEDIES[self.kind].format(pid=self.pid or "PID", node=self.node or "its node")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What is known of a job."""

    job: RunningJob
    findings: tuple[Finding, ...] = ()
    undetermined: tuple[str, ...] = ()
    """What could not be determined, and why."""
    ranks: tuple[RankSample, ...] = ()

    @property
    def verdict(self) -> str:
        """Return `suspicious`, `undetermined` or `not suspicious`."""
        return "suspicious" if self.findings else "undetermined" if self.undetermined else "not suspicious"


def diagnose(job: RunningJob, nodes: Mapping[str, NodeSample], lost: Mapping[str, str], now: float) -> Diagnosis:
    """Return what is suspicious about a job. `lost`: nodes without samples, and why. `now`: clock of the controller that listed the job."""
    if job.state != "RUNNING":
        return Diagnosis(job=job, undetermined=(f"its state is {job.state}, in which its processes may be stopped or absent",))
    seen = {name: nodes[name] for name in job.nodes if name in nodes}
    ranks = tuple(main_ranks([one for node in seen.values() for one in node.ranks if one.job == job.raw]))
    reasons = [*gaps(job, seen, lost), *unclear(ranks)]
    findings = [*about_ranks(job, ranks), *stopped_others(job, seen, ranks)]
    complete = not any(name in lost or job.raw not in seen[name].jobs for name in job.nodes)
    if complete:
        findings += missing(job, ranks)
    findings += stragglers(job, ranks, findings)
    if complete and not findings:
        findings += at_rest(job, seen, ranks, now)
    if not findings and complete:
        reasons += spinning(ranks)
    return Diagnosis(job=job, findings=tuple(sorted(findings, key=_order)), undetermined=tuple(dict.fromkeys(reasons)), ranks=ranks)


def _order(finding: Finding) -> tuple[int, int]:
    return list(Kind).index(finding.kind), -1 if finding.rank is None else finding.rank


def main_ranks(ranks: Sequence[RankSample]) -> Iterator[RankSample]:
    """Yield the ranks of the step with most of them, by the best source; processes without a rank if there is none."""
    order = (*LIBRARIES, "SLURM_PROCID")
    groups: dict[tuple[str, str], list[RankSample]] = {}
    for one in ranks:
        if one.step != "extern":
            groups.setdefault((one.step, one.source), []).append(one)
    ranked = [key for key in groups if key[1] in order]
    if ranked:
        best = min(ranked, key=lambda key: (order.index(key[1]) >= len(LIBRARIES), -len(groups[key]), order.index(key[1])))
        yield from sorted(groups[best], key=lambda one: (one.rank or 0, one.node, one.pid))
    else:
        yield from (one for group in groups.values() for one in group)


def gaps(job: RunningJob, seen: Mapping[str, NodeSample], lost: Mapping[str, str]) -> Iterator[str]:
    """Yield why nodes of a job show nothing."""
    for name in job.nodes:
        if name in lost:
            yield f"{name}: {lost[name]}"
            continue
        yield from (f"{name}: {error}" for error in seen[name].errors)
        if job.raw not in seen[name].jobs:
            yield f"{name}: no process of the job was found; a container daemon may have started it outside of the job"
        if seen[name].gpu_error and job.asks_for_gpus:
            yield f"{name}: GPUs were not read: {seen[name].gpu_error}"


def unclear(ranks: Sequence[RankSample]) -> Iterator[str]:
    """Yield why samples of ranks prove nothing."""
    for one in ranks:
        if one.ended and not one.source:
            continue  # A script starts one program after the other.
        if one.ended:
            yield f"{one.title} ended while it was sampled"
        elif one.samples < LEAST_SAMPLES:
            yield f"{one.title} was sampled {one.samples} times only (at least {LEAST_SAMPLES})"
        elif one.share(Wait.HIDDEN) > HIDDEN:
            yield f"what {one.title} waits for is hidden in {one.share(Wait.HIDDEN):.0%} of samples by the kernel of {one.node} (wchan)"


def _is_clear(one: RankSample) -> bool:
    return not one.ended and one.samples >= LEAST_SAMPLES and one.share(Wait.HIDDEN) <= HIDDEN


def about_ranks(job: RunningJob, ranks: Sequence[RankSample]) -> Iterator[Finding]:
    """Yield what a rank shows by itself."""
    for one in ranks:
        if one.ended or one.samples < LEAST_SAMPLES:
            continue
        if one.share(Wait.STOPPED) >= STOPPED:
            yield of_rank(Kind.STOPPED, job, one, doing(one))
        elif one.share(Wait.STORAGE) >= IN_STORAGE and not one.moved:
            yield of_rank(Kind.STORAGE, job, one, f"{doing(one)}, and its system calls moved no byte")
        elif (one.delay_share or 0.0) >= NO_CPU:
            yield of_rank(Kind.NO_CPU, job, one, f"it was ready to run and had no CPU for {one.delay_share:.2f} s of each second")
        elif lacks_power(one):
            yield of_rank(
                Kind.NO_POWER, job, one, f"{gpu_text(one)}; a kernel that spins in a collective looks so. Never measured with NCCL"
            )


def of_rank(kind: Kind, job: RunningJob, one: RankSample, evidence: str) -> Finding:
    """Return a finding about a rank."""
    return Finding(kind=kind, job=job.job, evidence=evidence, node=one.node, rank=one.rank, pid=one.pid)


def doing(one: RankSample) -> str:
    """Return what the main thread does most, in words, with the kernel's names: `sleeps in 75 % of 150 samples (hrtimer_nanosleep)`."""
    state = max(Wait, key=lambda wait: one.share(wait) if wait is not Wait.OTHERS else 0.0)
    names = sorted((seen for seen in one.waits if classify(seen) is state and " " in seen), key=lambda seen: -one.waits[seen])
    shown = f" ({', '.join(name.partition(' ')[2] for name in names[:2])})" if names else ""
    return f"it {state.value} in {one.share(state):.0%} of {one.samples} samples{shown}"


def lacks_power(one: RankSample) -> bool:
    """Return whether a GPU of a rank is busy and draws little."""
    return any((gpu.busy or 0.0) >= BUSY and gpu.power_share is not None and gpu.power_share < POWER for gpu in one.gpus)


def gpu_text(one: RankSample) -> str:
    """Return utilization and power of the GPUs of a rank."""
    return ", ".join(
        f"GPU {gpu.index} "
        + ("of unknown use" if gpu.busy is None else f"busy {gpu.busy:.0f} %")
        + (f" at {gpu.power:.0f} of {gpu.limit:.0f} W" if gpu.power is not None and gpu.limit else "")
        for gpu in one.gpus
    )


def stopped_others(job: RunningJob, seen: Mapping[str, NodeSample], ranks: Sequence[RankSample]) -> Iterator[Finding]:
    """Yield processes of a job that were stopped all the time and are not the main process of a rank."""
    known = {(one.node, one.pid) for one in ranks}
    for name, node in seen.items():
        pids = [pid for pid in node.jobs[job.raw].stopped if (name, pid) not in known] if job.raw in node.jobs else []
        if pids and not any(one.node == name and one.share(Wait.STOPPED) >= STOPPED for one in ranks):
            evidence = f"{len(pids)} process{'es' if len(pids) > 1 else ''} of the job stopped: {', '.join(map(str, pids[:8]))}"
            yield Finding(kind=Kind.STOPPED, job=job.job, evidence=evidence, node=name, pid=pids[0])


def missing(job: RunningJob, ranks: Sequence[RankSample]) -> Iterator[Finding]:
    """Yield the ranks that have no process, though the others count on them."""
    sizes = {one.size for one in ranks if one.source in LIBRARIES and one.size}
    absent = sorted(set(range(max(sizes, default=0))) - {one.rank for one in ranks})
    if ranks and absent:
        evidence = f"{', '.join(f'rank {rank}' for rank in absent[:8])} of {max(sizes)} has no process on any node of the job"
        yield Finding(kind=Kind.MISSING, job=job.job, evidence=evidence, rank=absent[0])


def stragglers(job: RunningJob, ranks: Sequence[RankSample], known: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the ranks for which the others wait: the least waits, at most half of the ranks, while every other one waits.

    In a synchronous step each rank works for the share of its time in which it does not wait, so the shares give the ratio of step times.
    """
    if len(ranks) < 2 or not all(map(_is_clear, ranks)):
        return
    waits = sorted(ranks, key=lambda one: one.share(Wait.OTHERS))
    shares = [one.share(Wait.OTHERS) for one in waits]
    cut = max(range(1, len(waits) // 2 + 1), key=lambda number: shares[number] - shares[number - 1])
    longer = 1 - shares[cut - 1] >= WORK_RATIO * (1 - shares[cut])
    if shares[cut] >= WAITS_FOR_OTHERS and longer and _differ(waits[cut - 1], waits[cut]):
        named = _explained(waits[cut:], known)
        for one in waits[:cut]:
            if (one.node, one.pid) not in named:
                yield of_rank(_reason(one), job, one, f"{doing(one)}; {_comparison(one, waits[cut:])}")
        return
    spared = [one for one in ranks if one.gpus and not lacks_power(one)]
    if spared and len(spared) <= len(ranks) // 2 and all(one.gpus for one in ranks):
        yield from (of_rank(Kind.STRAGGLING, job, one, f"{gpu_text(one)}, while the GPUs of all other ranks spin") for one in spared)


def _differ(one: RankSample, other: RankSample) -> bool:
    """Return whether the shares of two ranks differ by more than samples do by chance. More samples tell smaller differences."""
    variances = [(share := each.share(Wait.OTHERS)) * (1 - share) / each.samples for each in (one, other)]
    return other.share(Wait.OTHERS) - one.share(Wait.OTHERS) > ERRORS * math.sqrt(sum(variances))


def _explained(waiting: Sequence[RankSample], known: Sequence[Finding]) -> set[tuple[str, int | None]]:
    """Return the ranks whose own finding explains why others wait. A lack of CPU does not, if those that wait have none either."""
    named = {(one.node, one.pid): one.kind for one in known}
    all_lack = any(named.get((one.node, one.pid)) is Kind.NO_CPU for one in waiting)
    return {place for place, kind in named.items() if kind in (Kind.STOPPED, Kind.STORAGE) or (kind is Kind.NO_CPU and not all_lack)}


def _reason(one: RankSample) -> Kind:
    """Return why the others wait for a rank."""
    return Kind.STORAGE if one.share(Wait.STORAGE) >= WAITS_FOR_OTHERS else Kind.STRAGGLING


def _comparison(one: RankSample, others: Sequence[RankSample]) -> str:
    least = min(other.share(Wait.OTHERS) for other in others)
    ratio = (1 - one.share(Wait.OTHERS)) / (1 - least) if least < 1 else None
    longer = f": its step takes {ratio:.1f} times as long" if ratio and ratio < 20 else ""
    return f"it waits for others in {one.share(Wait.OTHERS):.0%} of samples, the others in at least {least:.0%}{longer}"


def at_rest(job: RunningJob, seen: Mapping[str, NodeSample], ranks: Sequence[RankSample], now: float) -> Iterator[Finding]:
    """Yield a job whose CPU time stands still: all ranks wait for each other, or it does nothing."""
    seconds = max((node.jobs[job.raw].seconds for node in seen.values()), default=0.0)
    used = sum(node.jobs[job.raw].cpu for node in seen.values())
    if not seconds or used / seconds >= STANDS_STILL or job.started is None or now - job.started < SETTLES:
        yield from idle_gpus(job, seen, now)
        return
    still = f"its processes used {used:.2f} s of CPU time in {seconds:.0f} s"
    if len(ranks) > 1 and all(one.share(Wait.OTHERS) >= ALL_WAIT for one in ranks):
        first = ranks[0]
        evidence = f"all {len(ranks)} ranks wait in a futex, none is to blame; {still}{moved(seen)}"
        yield Finding(kind=Kind.HUNG, job=job.job, evidence=evidence, node=first.node, pid=first.pid)
    else:
        yield Finding(kind=Kind.IDLE, job=job.job, evidence=f"{still}{moved(seen)}")


def moved(seen: Mapping[str, NodeSample]) -> str:
    """Return the bytes on the fabric of a job's nodes, if all of them count."""
    counts = [node.fabric for node in seen.values()]
    known = [count for count in counts if count is not None]
    return f"; its nodes moved {sum(known)} bytes on the fabric" if known and len(known) == len(counts) else ""


def idle_gpus(job: RunningJob, seen: Mapping[str, NodeSample], now: float) -> Iterator[Finding]:
    """Yield a job that has GPUs, and no process on any of them."""
    is_old = job.started is not None and now - job.started >= SETTLES
    uses_gpus = any(one.gpus for node in seen.values() for one in node.ranks if one.job == job.raw)
    if is_old and job.asks_for_gpus and not uses_gpus and all(node.gpus_read for node in seen.values()):
        yield Finding(kind=Kind.IDLE, job=job.job, evidence=f"it has GPUs ({job.tres}) and no process on any of them")


def spinning(ranks: Sequence[RankSample]) -> Iterator[str]:
    """Yield why stragglers were not determined: ranks that spin while they wait cannot be distinguished from ranks that compute."""
    clear = [one for one in ranks if _is_clear(one)]
    judged = len(ranks) > 1 and len(clear) == len(ranks) and not all(one.gpus for one in ranks)
    if judged and all(one.share(Wait.OTHERS) < NO_WAITS for one in ranks):
        yield "stragglers: no rank waits in a futex; ranks that spin while they wait (MPI, NCCL) look like ranks that compute"
