"""A fine-tuning run: adapters for the newest checkpoint that `train` left, as one job or pod of an ordinary user."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.demo.following import Following, Progress, Say, interrupted, run_jobs
from rackwright.operations.demo.prerequisites import TrainingSite, find_site
from rackwright.operations.demo.recording import identify, record, run_name
from rackwright.operations.demo.training import CHUNK_MIB, records
from rackwright.report.finetuning import document_of
from rackwright.workloads.finetune_job import FinetuneJob, finetune_files, finetune_pod_files
from rackwright.workloads.training_pods import run_objects

_FILES: Final = 5
"""Files of adapter and merged model: two and one, with a manifest each."""
_MIB: Final = 8
"""MiB of both: 0.3 MB and 3.5 MB, and events."""


@dataclass(frozen=True)
class FinetuneOptions:
    """What the user asked for."""

    steps: int = 150

    @classmethod
    def of(cls, steps: int | None, **of_training: Any) -> FinetuneOptions:
        """Return the options, with the default for None. Raises InputError for an option of training that is given: there is one rank."""
        name = next((name for name, value in of_training.items() if value is not None), None)
        if name:
            option = f"--{name.replace('_', '-')}"
            raise InputError("is an option of train (found finetune)", path=option, hint=f"run finetune without {option}")
        return cls() if steps is None else cls(steps)


def finetune(stack: str, options: FinetuneOptions, on_progress: Progress, say: Say) -> dict[str, Any]:
    """Fine-tune the newest checkpoint of a stack; return the document rackwright.finetune/1, which is recorded, too.

    At Ctrl-C the job is cancelled. Raises InputError if the stack is not up, lacks a prerequisite or has no checkpoint, UndeterminedError
    if the job cannot be submitted or followed.
    """
    running = RunningStack.of(stack)
    site = find_site(running.inventory, nodes=1)
    name, started = run_name("finetune"), datetime.now(UTC)
    following: list[Following] = []
    try:
        trained = asyncio.run(_run(running, site, options, name, following, on_progress, say))
    except KeyboardInterrupt:
        if not following:
            raise UndeterminedError("interrupted before a job was submitted", path=f"stack {stack}") from None
        raise interrupted(following[0]) from None
    run = following[0]
    settings = {"steps": options.steps, "seed": trained["settings"]["seed"]}
    document = document_of(settings, trained["run"], run.lines, identify(run, name, started), run.error)
    record(stack, document, say)
    return document


async def _run(
    running: RunningStack,
    site: TrainingSite,
    options: FinetuneOptions,
    name: str,
    following: list[Following],
    on_progress: Progress,
    say: Say,
) -> dict[str, Any]:
    """Run the job, and return the record of the training run whose checkpoint it took. `following` receives the run."""
    trained = await _newest_trained(running, site)
    job = FinetuneJob(
        name=f"rackwright-{name}".lower() if site.pods else f"rackwright-{name}",  # Names of Kubernetes have no capital letters.
        run=f"{site.folder}/{name}",
        checkpoints=f"{trained['folder']}/checkpoints",
        python=site.python,
        partition=site.partition,
        gpus=min(site.gpus, 1),
        steps=options.steps,
        seed=int(trained["settings"]["seed"]),
        minutes=site.minutes,
    )
    following.append(Following(running, site, job))
    say(f"base: the newest checkpoint of {trained['run']}")
    files = finetune_pod_files(job) if site.pods else finetune_files(job)
    objects = run_objects(job, site.pods) if site.pods else []
    chunks = _FILES + sum(bool(text) for text in files.values())
    needed = chunks * CHUNK_MIB if site.file_system == "moosefs" else _MIB
    await run_jobs(following[0], files, needed, on_progress, say, contextlib.nullcontext(), objects)
    return trained


async def _newest_trained(running: RunningStack, site: TrainingSite) -> dict[str, Any]:
    """Return the newest training run whose folder still holds a checkpoint. Raises InputError without one."""
    known = {f"{one['folder']}/checkpoints": one for one in records(running.name)}
    hint = f"run train first: `rackwright demo {running.name} train`"
    if not known:
        raise InputError(
            "no training run is on record, so that there is no checkpoint to fine-tune", path=f"stack {running.name}", hint=hint
        )
    answer = await Following(running, site, _NoJob()).ask("newest", folders=list(known))
    if answer["error"]:
        raise UndeterminedError(f"the checkpoints could not be read: {answer['error']}", path=f"stack {running.name}")
    if not answer["found"]:
        found = f"none of {len(known)} recorded training runs has a checkpoint on {site.mount}"
        raise InputError(found, path=f"stack {running.name}", hint=hint)
    return known[answer["found"]]


@dataclass(frozen=True)
class _NoJob:
    """A request that is about no job."""

    name: str = ""
    run: str = ""
    steps: int = 0
