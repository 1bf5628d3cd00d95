"""A model server on Kubernetes under load: scaled up, updated and scaled down, while each request is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.demo.autoscaling import Autoscaler, QueueScaler
from rackwright.operations.demo.following import Following, Progress, Say
from rackwright.operations.demo.images import require_images
from rackwright.operations.demo.prerequisites import TrainingSite, find_site
from rackwright.operations.demo.recording import identify, record, run_name
from rackwright.operations.demo.serving_run import ServingRun, Stage
from rackwright.operations.demo.training import CHUNK_MIB, records
from rackwright.report.serving import document_of
from rackwright.workloads.inference.engine import BATCH, QUEUE
from rackwright.workloads.inference.load import PATIENCE
from rackwright.workloads.scaled_objects import ADDON, QueueTarget
from rackwright.workloads.serving_pods import PORT, ServingJob, scaling_objects, serving_objects

PROGRAM: Final = "serving_pods"
"""Program that answers requests on the submitting node."""
_FILES: Final = 3
"""Files of a run: the load, its predecessor, and the events."""
_TARGET: Final = 4
"""Waiting requests of a pod to scale to. Chosen: half a batch, so that a replica is added before the queue is full."""
_WINDOW: Final = 30
"""Seconds of the stabilization window. Kubernetes' default is 300; a demo should not wait so long."""
_QUIET: Final = 2
"""Clients of the stages with little load: less than a batch, so that no request waits."""
_BUSY: Final = 0.8
"""Part of the clients that stays for the update, so that requests wait and the autoscaler keeps its replicas."""
_RETRY: Final = "a request is sent again after 429 or 503 only, for {patience:.0f} s; any other request without a complete answer is lost"


@dataclass(frozen=True)
class ServingOptions:
    """What the user asked for."""

    clients: int = 40

    @classmethod
    def of(cls, clients: int | None, **of_training: Any) -> ServingOptions:
        """Return the options, with the default for None. Raises InputError for an option of training that is given."""
        name = next((name for name, value in of_training.items() if value is not None), None)
        if name:
            option = f"--{name.replace('_', '-')}"
            raise InputError("is an option of train or finetune (found serve)", path=option, hint=f"run serve without {option}")
        return cls() if clients is None else cls(clients)


def serve(stack: str, options: ServingOptions, on_progress: Progress, say: Say) -> dict[str, Any]:
    """Serve the newest training run's model under load; return the document rackwright.serve/1, which is recorded, too.

    All objects are deleted at the end and at Ctrl-C. Raises InputError if the stack is not up, lacks a prerequisite or has no checkpoint,
    UndeterminedError if the objects cannot be created or observed.
    """
    running = RunningStack.of(stack)
    site = find_serving_site(running)
    name, started = run_name("serve"), datetime.now(UTC)
    runs: list[ServingRun] = []
    try:
        names = asyncio.run(_run(running, site, options, name, runs, on_progress, say))
    except KeyboardInterrupt:
        raise _interrupted(runs, stack) from None
    run = runs[0]
    identity = identify(run.following, name, started)
    document = document_of(_settings(run, options, names), run.lines, run.samples, run.scalings, run.goals, identity, run.error)
    device = document["environment"] or {}
    facts = [", ".join([device["device"], f"PyTorch {device['torch']}"])] if device else []
    document = {**document, "evidence": [*facts, *document["evidence"]]}
    record(stack, document, say)
    return document


def find_serving_site(running: RunningStack) -> TrainingSite:
    """Return where a stack serves. Raises InputError for the first part that is missing."""
    declared = running.inventory
    kind = (declared.cluster.get("scheduler") or {}).get("kind")
    if kind != "kubernetes":
        hint = "use a stack with `scheduler: {kind: kubernetes}`, for example lab-k8s-train"
        raise InputError(f"serves models on Kubernetes only (found scheduler {kind})", path=f"stack {running.name}", hint=hint)
    site = find_site(declared)
    if site.gpus:
        hint = f"for GPUs, apply `rackwright workloads {running.name} vllm`"
        raise InputError("the server of this command computes on CPUs", path=f"stack {running.name}", hint=hint)
    return site


async def _run(
    running: RunningStack,
    site: TrainingSite,
    options: ServingOptions,
    name: str,
    runs: list[ServingRun],
    on_progress: Progress,
    say: Say,
) -> list[str]:
    """Run all stages; return the names of the checkpoints in the order of their revisions. `runs` receives the run."""
    folder, names = await _find_checkpoints(running, site)
    place = site.pods
    assert place is not None
    lowered = f"rackwright-{name}".lower()  # Names of Kubernetes have no capital letters.
    job = ServingJob(lowered, f"{place.volume}/serving/{name}", folder, names[0])
    following = Following(running, site, job, program=PROGRAM)
    scheduler, most = running.inventory.cluster["scheduler"], len(place.workers)
    is_scaled = any(one["name"] == ADDON for one in scheduler.get("addons") or ())
    scaler = (Autoscaler if is_scaled else QueueScaler)(least=1, most=most, target=_TARGET, window=_WINDOW)
    objects = serving_objects(job, place)
    if is_scaled:
        objects += scaling_objects(job, place, QueueTarget(PORT, most, _TARGET, _WINDOW), scheduler["network"]["enforces_network_policy"])
    run = ServingRun(following, objects, scaler, on_progress, say)
    runs.append(run)
    update = job.environment(names[-1], 2)
    needed = _FILES * CHUNK_MIB if site.file_system == "moosefs" else 1
    for remark in await require_images(running, site):
        say(remark)
    await run.run(list(_stages(options, scaler.most, update)), needed)
    return names


def _stages(options: ServingOptions, most: int, update: dict[str, str]) -> Iterator[Stage]:
    """Yield the stages. A stage holds for some seconds after its goal, so that its figures are not those of the change alone."""
    yield Stage("steady", _QUIET, lambda seen: seen["replicas"] == 1 and seen["is_rolled_out"], holds=20)
    yield Stage("scale-up", options.clients, lambda seen: seen["replicas"] == most and seen["is_rolled_out"], holds=20)
    busy = max(_QUIET, int(options.clients * _BUSY))
    fingerprint = f"{update['CHECKPOINT'].rpartition('/')[2]}/{update['REVISION']}"
    updated = lambda seen: seen["is_rolled_out"] and all(one["facts"].get("checkpoint") == fingerprint for one in seen["pods"])  # noqa: E731
    yield Stage("rolling-update", busy, updated, holds=10, update=update)
    yield Stage("scale-down", _QUIET, lambda seen: seen["replicas"] == 1 and seen["is_rolled_out"], holds=5)


async def _find_checkpoints(running: RunningStack, site: TrainingSite) -> tuple[str, list[str]]:
    """Return the folder of the newest training run with a checkpoint, and the checkpoints to serve, in this order."""
    known = [f"{one['folder']}/checkpoints" for one in records(running.name)]
    hint = f"run train first: `rackwright demo {running.name} train`"
    if not known:
        raise InputError("no training run is on record, so that there is no model to serve", path=f"stack {running.name}", hint=hint)
    answer = await Following(running, site, ServingJob("", "", "", ""), program=PROGRAM).ask("checkpoints", folders=known)
    if answer["error"]:
        raise UndeterminedError(f"the checkpoints could not be read: {answer['error']}", path=f"stack {running.name}")
    if not answer["checkpoints"]:
        found = f"none of {len(known)} recorded training runs has a checkpoint on {site.mount}"
        raise InputError(found, path=f"stack {running.name}", hint=hint)
    newest = answer["checkpoints"][:2]
    return str(answer["found"]), [newest[-1], newest[0]]


def _settings(run: ServingRun, options: ServingOptions, names: list[str]) -> dict[str, Any]:
    scaler = run.scaler
    return {
        "server": "rackwright, CPU",
        "clients": options.clients,
        "batch": BATCH,
        "queue": QUEUE,
        "max_tokens": run.job.max_tokens,
        "checkpoints": names,
        "autoscaler": scaler.name,
        "target_waiting": scaler.target,
        "window_s": scaler.window,
        "replicas": {"least": scaler.least, "most": scaler.most},
        "retry": _RETRY.format(patience=PATIENCE),
    }


def _kinds(run: ServingRun) -> str:
    """Return the kinds of the run's objects, as kubectl names them; a ScaledObject comes first, and only where the cluster has the kind."""
    kinds = "deployment,service,configmap,pdb,networkpolicy,pod"
    return kinds if isinstance(run.scaler, QueueScaler) else f"scaledobject,{kinds}"


def _interrupted(runs: list[ServingRun], stack: str) -> UndeterminedError:
    if not runs:
        return UndeterminedError("interrupted before a server was created", path=f"stack {stack}")
    run = runs[0]
    place = run.following.site.pods
    where = f"-n {place.namespace} " if place else ""
    delete = f"kubectl {where}delete {_kinds(run)} -l rackwright/run={run.job.name}"
    left = f"its objects may still exist ({run.left})" if run.left else "its objects are deleted"
    hint = (
        f"run `{delete}` as {run.following.site.user} on {run.following.site.submit_host}" if run.left else f"files stay in {run.job.run}"
    )
    return UndeterminedError(f"interrupted in stage {run.stage or 'start'}; {left}", path=f"run {run.job.name}", hint=hint)
