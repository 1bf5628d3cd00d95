"""A fine-tuning run, one process on one node: its batch job on Slurm, or the script of its pod on Kubernetes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from rackwright.workloads.training_job import ENVIRONMENT, PACKAGE, RECORD, batch_header, program_below_run
from rackwright.workloads.training_pods import pod_script


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

    @property
    def nodes(self) -> int:
        """Return the number of nodes: one."""
        return 1

    @property
    def ranks_per_node(self) -> int:
        """Return the processes on the node: one."""
        return 1

    @property
    def gpus_per_node(self) -> int:
        """Return the GPUs of the node's process."""
        return self.gpus

    @property
    def restarts(self) -> int:
        """Return the attempts after the first one. A lost node ends the run: it takes a minute and is repeated by hand."""
        return 0


def finetune_files(job: FinetuneJob) -> dict[str, str]:
    """Return all files of a run's folder by their path: the script, and the program below `program`."""
    return {"job.sh": "\n".join(_lines(job)) + "\n", **program_below_run()}


def finetune_pod_files(job: FinetuneJob) -> dict[str, str]:
    """Return all files of a run's folder by their path: the script of the pod, and the program below `program`."""
    return {"pod.sh": pod_script(job, f'{_command(job)} --attempt "$ATTEMPT"'), **program_below_run()}


def _command(job: FinetuneJob) -> str:
    """Return the command that fine-tunes, without the number of the attempt."""
    options = f"--steps={job.steps} --seed={job.seed}"
    return f'{shlex.quote(job.python)} -m {PACKAGE}.finetune --run "$run" --checkpoints {shlex.quote(job.checkpoints)} {options}'


def _lines(job: FinetuneJob) -> Iterator[str]:
    """Yield the batch script."""
    more = {"gpus-per-node": str(job.gpus)} if job.gpus else {}
    yield from batch_header(job.name, job.run, job.partition, 1, job.minutes, {**more, "no-requeue": ""})
    yield from RECORD.format(run=shlex.quote(job.run)).splitlines()
    yield ENVIRONMENT
    if not job.gpus:
        yield "export OMP_NUM_THREADS=1"
    yield "record begin"
    yield f'if srun --cpus-per-task="$SLURM_CPUS_ON_NODE" {_command(job)} --attempt "$attempt"; then'
    yield from ("    record end", "    exit 0", "fi", "record failed", "record gave-up", "exit 1")
