"""The batch job of a fine-tuning run on Slurm: one process on one node."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from rackwright.workloads.training_job import ENVIRONMENT, PACKAGE, RECORD, batch_header, program_below_run


@dataclass(frozen=True)
class FinetuneJob:
    """What the script and the program get; all paths are those of nodes."""

    name: str
    """Name of the job; no other run has it."""
    run: str
    """Folder of the run on the shared file system."""
    checkpoints: str
    """Folder with the checkpoints of the training run."""
    python: str
    """Interpreter with PyTorch."""
    partition: str
    gpus: int
    """GPUs that the job requests: 1, or 0 for CPUs."""
    steps: int
    seed: int
    """Seed of the training run, whose text is changed."""
    minutes: int
    """Time limit."""


def finetune_files(job: FinetuneJob) -> dict[str, str]:
    """Return all files of a run's folder by their path: the script, and the program below `program`."""
    return {"job.sh": "\n".join(_lines(job)) + "\n", **program_below_run()}


def _lines(job: FinetuneJob) -> Iterator[str]:
    """Yield the batch script. A lost node ends the job: the run takes a minute and is repeated by hand."""
    more = {"gpus-per-node": str(job.gpus)} if job.gpus else {}
    yield from batch_header(job.name, job.run, job.partition, 1, job.minutes, {**more, "no-requeue": ""})
    yield from RECORD.format(run=shlex.quote(job.run)).splitlines()
    yield ENVIRONMENT
    if not job.gpus:
        yield "export OMP_NUM_THREADS=1"
    yield "record begin"
    yield f'if srun --cpus-per-task="$SLURM_CPUS_ON_NODE" {shlex.quote(job.python)} -m {PACKAGE}.finetune --run "$run" \\'
    options = f"--steps={job.steps} --seed={job.seed}"
    yield f'    --checkpoints {shlex.quote(job.checkpoints)} --attempt "$attempt" {options}; then'
    yield from ("    record end", "    exit 0", "fi", "record failed", "record gave-up", "exit 1")
