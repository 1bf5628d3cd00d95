"""Jobs on Slurm: the command of each, the text that its tasks run, and the conversion of the result to `Output`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rackwright.checks.acceptance.harness import rank_prefixed_output
from rackwright.checks.acceptance.harness.rank_prefixed_output import HEAD, unlabelled
from rackwright.checks.acceptance.phase import Job, Output, Program, Task
from rackwright.checks.cluster.probes.smoke import decisive
from rackwright.errors import InputError
from rackwright.inventory.reader import Inventory

__all__ = ["HEAD", "Slurm", "command", "heads", "output", "partition", "request", "sent", "whole_lines"]

PATIENCE: Final = 45
"""Seconds a job may wait for its nodes, which were idle before."""
_PRELUDE: Final = Path(__file__).with_name("slurm_prelude.py")
_CUT: Final = 1024
"""Bytes after which `srun --label` (seen with 24.11.5) starts a new line, as if the task had."""
TIMED_OUT: Final = 124
"""Exit status of a command that timed out: timeout(1)."""


@dataclass(frozen=True)
class Slurm:
    """The launcher for Slurm."""

    declared: Inventory

    def sent(self, program: Program) -> str:
        """Return the text that srun passes to the tasks' stdin."""
        return sent(program)

    def request(self, job: Job, run: str, phase: str) -> dict[str, Any]:
        """Return the request of one srun."""
        return request(job, run, phase, self.declared)

    def files(self, request: Mapping[str, Any]) -> dict[str, str]:
        """Return no files: the command contains everything."""
        return {}

    def output(self, job: Job, result: Mapping[str, Any]) -> Output:
        """Return the output of a job from the output of srun."""
        return output(job, result)

    def heads(self, text: str) -> list[dict[str, Any]]:
        """Return the headers of tasks from labelled lines."""
        return heads(text)

    def whole_lines(self, text: str) -> list[tuple[int, str]]:
        """Return the lines of tasks; lines that srun cut are joined again."""
        return whole_lines(text)


def sent(program: Program) -> str:
    """Return the text that a job's tasks run."""
    return rank_prefixed_output.preceded(program, _PRELUDE)


def command(job: Job, label: str, declared: Inventory) -> list[str]:
    """Return the command line of srun with every option set: no default of the site applies."""
    count = len(job.nodes)
    room = ["--exclusive", "--mem=0"] if job.whole_nodes else [f"--mem={job.memory_mib}"]
    gpus = [f"--gres=gpu:{job.gpus_per_node}"] if job.gpus_per_node else []
    mpi = ["--mpi=pmix"] if job.mpi else []  # Slurm's default is none; without MPI each task is a program of its own.
    environment = {"MASTER_ADDR": job.nodes[0], **job.environment}
    return [
        *("srun", f"--job-name={label}", f"--partition={partition(declared, job.nodes)}", f"--nodelist={','.join(job.nodes)}"),
        *(f"--nodes={count}", f"--ntasks={count * job.tasks_per_node}", f"--ntasks-per-node={job.tasks_per_node}"),
        *(f"--cpus-per-task={job.cpus_per_task}", *room, *gpus, f"--time={math.ceil(job.limit_s / 60)}"),
        *(*mpi, "--chdir=/", "--label", "--kill-on-bad-exit=1"),
        *("env", *(f"{name}={value}" for name, value in environment.items()), job.interpreter, "-I", "-", *job.arguments),
    ]


def partition(declared: Inventory, nodes: tuple[str, ...]) -> str:
    """Return the first partition that contains all nodes."""
    for one in declared.cluster["scheduler"]["partitions"]:
        if set(nodes) <= set(one["nodes"]):
            return str(one["name"])
    raise InputError(f"no partition of the plan has all of {', '.join(nodes)}", path="scheduler.partitions")


def request(job: Job, run: str, phase: str, declared: Inventory, *, waking: int = 0) -> dict[str, Any]:
    """Return the request of a job."""
    label = f"rackwright-{run}-{phase}-{job.name}"
    seconds = job.limit_s + PATIENCE + waking
    return {
        "name": job.name,
        "label": label,
        "argv": command(job, label, declared),
        "seconds": seconds,
        "stdin": sent(job.program),
    }


def output(job: Job, result: Mapping[str, Any]) -> Output:
    """Return the output of a job."""
    tasks = _tasks(result["out"])
    status = int(result["status"])
    trouble = ""
    if status:
        late = f"no end after {result['ended'] - result['began']:.0f} s" if status == TIMED_OUT else ""
        trouble = late or decisive(unlabelled(result["err"])) or f"ended with status {status}"
    job_id = next((str(head["job"]) for head, _ in tasks), "")
    printed = tuple(Task(head["RANK"], head["node"], head["host"], head["uid"], "\n".join(lines)) for head, lines in tasks)
    return Output(job, job_id, status, trouble, printed, result["err"], result["ended"] - result["began"])


def heads(text: str) -> list[dict[str, Any]]:
    """Return the headers that the tasks of a job printed, by rank."""
    return [head for head, _ in _tasks(text)]


def whole_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines of tasks with their ranks; lines that srun cut are joined again."""
    return rank_prefixed_output.whole_lines(text, _CUT)


def _tasks(text: str) -> list[tuple[dict[str, Any], list[str]]]:
    return rank_prefixed_output.tasks(whole_lines(text))
