"""Run on the node, imported by job_samples: find the processes of jobs and their ranks, and sample what their main threads wait for.

Python 3.9, standard library only.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

RANKS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", ""),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
"""Variables with the rank and the number of ranks, the first one that a process has: torchrun, Open MPI, PMIx, PMI, srun."""
TASK = "SLURM_PROCID"
STEPS = {"4294967290": "interactive", "4294967291": "batch", "4294967292": "extern"}
"""Steps whose numbers Slurm reserves (slurm.h, SLURM_INTERACTIVE_STEP, SLURM_BATCH_SCRIPT, SLURM_EXTERN_CONT)."""
CGROUP = re.compile(r"/job_(\d+)/step_([A-Za-z0-9+]+)")
"""Part of a control group of Slurm, version 1 and 2 (slurm.schedmd.com/cgroups.html)."""
WRAPPER = 1.0
"""CPU seconds below which a process that has children of its rank is their wrapper: a shell, a container runtime. Chosen: the import of
PyTorch alone takes 1.4 s."""
FOR_CHILD = "do_wait"
"""Wait of a process for the end of a child (Linux, kernel/exit.c)."""
HIDDEN = "?"
"""Wait of a process that sleeps, of which the kernel does not say what it waits for."""
MOST_MEMBERS = 256
"""Processes of a rank whose GPUs are known. Chosen: a rank has one process on its GPU, and some data loaders."""
TICKS = os.sysconf("SC_CLK_TCK")


class Stat(NamedTuple):
    """A part of /proc/PID/stat (proc(5))."""

    command: str
    state: str
    parent: int
    cpu: float
    """Seconds in user and kernel mode."""
    reaped: float
    """Seconds of children that have ended."""
    started: str


class Process(NamedTuple):
    """A process of a job."""

    pid: int
    stat: Stat
    job: str
    step: str
    source: str
    """Variable that states the rank; empty for a process without one."""
    rank: int | None
    size: int | None

    @property
    def key(self) -> tuple[Any, ...]:
        """Return what it shares with the other processes of its rank."""
        return (self.job, self.step, self.source, self.rank)


def read(pid: int, name: str, proc: str) -> str:
    """Return a file of a process; empty if it has ended, or may not be read."""
    try:
        with open(os.path.join(proc, str(pid), name), "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def stat_of(pid: int, proc: str) -> Stat | None:
    """Return the state of a process, or None if it has ended."""
    head, _, rest = read(pid, "stat", proc).rpartition(")")
    cells = rest.split()
    if len(cells) < 20:
        return None
    own, reaped = (sum(map(int, cells[first : first + 2])) / TICKS for first in (11, 13))
    return Stat(head.partition("(")[2], cells[0], int(cells[1]), own, reaped, cells[19])


def environment(pid: int, proc: str) -> dict[str, str]:
    """Return the environment with which a process was started."""
    return dict(pair.split("=", 1) for pair in read(pid, "environ", proc).split("\0") if "=" in pair)


def pids_by_owner(uids: Iterable[int], proc: str) -> dict[tuple[int, int], list[int]]:
    """Return the processes of some users by user and group."""
    wanted, found = set(uids), dict[tuple[int, int], list[int]]()
    for name in filter(str.isdigit, os.listdir(proc)):
        try:
            owner = os.stat(os.path.join(proc, name))
        except OSError:
            continue
        if owner.st_uid in wanted:
            found.setdefault((owner.st_uid, owner.st_gid), []).append(int(name))
    return found


def identify(pid: int, jobs: Iterable[str], proc: str) -> Process | None:
    """Return a process of one of the jobs. The control group decides; without one, the environment does, which a user may change."""
    stat = stat_of(pid, proc)
    if stat is None or stat.state in "ZX":
        return None
    known = environment(pid, proc)
    group = CGROUP.search(read(pid, "cgroup", proc))
    job, step = group.groups() if group else (known.get("SLURM_JOB_ID", ""), known.get("SLURM_STEP_ID", "batch"))
    if job not in jobs:
        return None
    step = STEPS.get(step, step)
    for source, total in RANKS:
        rank, size = known.get(source, ""), known.get(total, "")
        if rank.isdigit() and (source != TASK or step.isdigit()):
            return Process(pid, stat, job, step, source, int(rank), int(size) if size.isdigit() else None)
    return Process(pid, stat, job, step, "", None, None)


def leaders(processes: Mapping[int, Process], proc: str) -> dict[int, list[int]]:
    """Return for each rank the process that does its work, with all processes of the rank.

    It is the first one with the rank's number, since data loaders and other children inherit the number. A wrapper is passed over.
    """
    children: dict[int, list[int]] = {}
    roots = []
    for pid, one in processes.items():
        parent = processes.get(one.stat.parent)
        if parent is not None and parent.key == one.key:
            children.setdefault(parent.pid, []).append(pid)
        else:
            roots.append(pid)
    found = {}
    for root in roots:
        members = [root]
        for pid in members:
            members += children.get(pid, [])
        lead = root
        while children.get(lead) and (processes[lead].stat.cpu < WRAPPER or read(lead, "wchan", proc) == FOR_CHILD):
            lead = max(children[lead], key=lambda pid: processes[pid].stat.cpu)
        found[lead] = members[:MOST_MEMBERS]
    return found


def wait_of(pid: int, stat: Stat, proc: str) -> str:
    """Return state and wait of a main thread: `R`, `S futex_do_wait`, or `S ?` if the kernel shows 0."""
    if stat.state in "RI":
        return stat.state
    wait = re.sub(r"[^\w.]", "", read(pid, "wchan", proc))[:64]
    return stat.state + " " + (wait if wait.strip("0") else HIDDEN)


class Watch:
    """Repeated samples of one process."""

    def __init__(self, process: Process, members: list[int], proc: str) -> None:
        self.process, self.members, self.proc = process, members, proc
        self.waits: Counter[str] = Counter()
        self.first = self.last = (process.stat.cpu, *self.counters())
        self.begun = self.seen = time.monotonic()
        self.ended = False

    def counters(self) -> tuple[float | None, int | None, int | None]:
        """Return seconds in the run queue, and bytes read and written by system calls (proc(5): schedstat, io)."""
        cells = read(self.process.pid, "schedstat", self.proc).split()
        delay = int(cells[1]) / 1e9 if len(cells) == 3 else None
        bytes_of = dict(line.split(": ", 1) for line in read(self.process.pid, "io", self.proc).splitlines() if ": " in line)
        got, sent = (int(bytes_of[name]) if name in bytes_of else None for name in ("rchar", "wchar"))
        return delay, got, sent

    def sample(self) -> None:
        """Add one sample."""
        if self.ended:
            return
        stat = stat_of(self.process.pid, self.proc)
        if stat is None or stat.state in "ZX" or stat.started != self.process.stat.started:
            self.ended = True
            return
        self.waits[wait_of(self.process.pid, stat, self.proc)] += 1
        self.last, self.seen = (stat.cpu, *self.counters()), time.monotonic()

    def result(self) -> dict[str, Any]:
        """Return the samples as JSON has them."""
        one = self.process
        spent = [None if old is None or new is None else round(new - old, 3) for old, new in zip(self.first, self.last)]
        return {
            **{name: value for name, value in one._asdict().items() if name != "stat"},
            "command": one.stat.command,
            "samples": sum(self.waits.values()),
            "waits": dict(self.waits),
            "seconds": round(self.seen - self.begun, 3),
            "ended": self.ended,
            "members": self.members,
            **dict(zip(("cpu", "run_delay", "read", "written"), spent)),
        }


def sample(pids: Iterable[int], request: Mapping[str, Any], proc: str = "/proc") -> dict[str, Any]:
    """Return the samples of all ranks among the processes, and the CPU time of all processes by job."""
    found = {pid: one for pid in pids if (one := identify(pid, request["jobs"], proc))}
    watches = [Watch(found[lead], members, proc) for lead, members in leaders(found, proc).items()]
    begun, number = time.monotonic(), request["samples"]
    for count in range(number):
        for watch in watches:
            watch.sample()
        late = time.monotonic() - begun
        if late > 2 * request["seconds"]:
            break
        time.sleep(max(0.0, (count + 1) * request["seconds"] / number - late))
    return {"ranks": [watch.result() for watch in watches], "jobs": totals(found, time.monotonic() - begun, proc)}


def totals(found: Mapping[int, Process], seconds: float, proc: str) -> dict[str, Any]:
    """Return for each job its processes, their CPU seconds since they were found, and those that were stopped then and are now."""
    jobs: dict[str, Any] = {}
    for pid, one in found.items():
        total = jobs.setdefault(one.job, {"processes": 0, "ended": 0, "cpu": 0.0, "seconds": round(seconds, 3), "stopped": []})
        stat = stat_of(pid, proc)
        if stat is None or stat.state in "ZX" or stat.started != one.stat.started:
            total["ended"] += 1
            continue
        total["processes"] += 1
        total["cpu"] = round(total["cpu"] + stat.cpu + stat.reaped - one.stat.cpu - one.stat.reaped, 3)
        if stat.state == one.stat.state == "T":
            total["stopped"].append(pid)
    return jobs
