"""What a training run needs of a stack; each missing part is an error that names what to add to the stack file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rackwright.drivers import node_kill
from rackwright.errors import InputError
from rackwright.inventory.reader import Inventory
from rackwright.model.node.pytorch import PytorchSource
from rackwright.workloads.training_pods import PodPlace

_MINUTES: Final = 60
"""Time limit of a job: 200 steps on two busy cores take 40 s, and a job keeps its nodes for 5 minutes while it waits for a lost one."""


@dataclass(frozen=True)
class TrainingSite:
    """The part of a stack that trains: where jobs are submitted and run, by whom, and with which PyTorch."""

    submit_host: str
    user: str
    mount: str
    """Mount point of the file system for programs, events and checkpoints."""
    file_system: str
    """moosefs, nfs or lustre."""
    partition: str
    workers: tuple[str, ...]
    """Nodes of the partition, in the order of the plan."""
    nodes: int
    """Number of them that train."""
    gpus: int
    """GPUs of each worker that are not simulated; 0 trains on CPUs."""
    python: str
    network: str
    """CIDR of the nodes' addresses."""

    minutes: int
    """Time limit of a job: an hour, or that of the partition."""
    folder: str
    """Folder below which each run has its own."""
    pods: PodPlace | None = None
    """Where pods train; None on Slurm."""

    @property
    def program(self) -> str:
        """Return the program that answers requests on the submitting node."""
        return "training_pods" if self.pods else "training_run"

    @property
    def ranks(self) -> int:
        """Return the number of ranks of a run."""
        return self.nodes * self.ranks_per_node

    @property
    def ranks_per_node(self) -> int:
        """Return a rank for each GPU. On CPUs one: a rank takes 400 MiB, and a worker of the small lab has 1 GiB."""
        return self.gpus or 1


def find_site(declared: Inventory, *, nodes: int | None = None, kill_worker: bool = False) -> TrainingSite:
    """Return where a stack trains. Raises InputError for the first part that is missing.

    nodes: number of workers that train; default: all.
    """
    scheduler = declared.cluster.get("scheduler") or {}
    if scheduler.get("kind") == "kubernetes":
        return _find_pods(declared, scheduler, nodes, kill_worker=kill_worker)
    if scheduler.get("kind") != "slurm":
        raise _missing(declared, "runs neither Slurm nor Kubernetes", "use a stack with `scheduler: {kind: slurm}`")
    hosts = [name for name in scheduler["submit_hosts"] if name in declared.nodes]
    if not hosts:
        raise _missing(declared, "has no node to submit jobs from", "give a group the role `login`")
    if not declared.cluster.get("users"):
        raise _missing(declared, "has no user to submit jobs", "add one, for example `users: {alice: {uid: 2001}}`")
    partition = next((one for one in scheduler["partitions"] if one["default"]), scheduler["partitions"][0])
    names = [name for name in partition["nodes"] if name in declared.nodes]
    wanted = nodes or len(names)
    _require_workers(declared, len(names), wanted, "in its default partition", kill_worker=kill_worker)
    workers = tuple(names)
    storage = _storage(declared, {hosts[0], *workers})
    return TrainingSite(
        submit_host=hosts[0],
        user=str(declared.cluster["users"][0]["name"]),
        mount=str(storage["mount"]),
        file_system=str(storage["kind"]),
        partition=str(partition["name"]),
        workers=workers,
        nodes=wanted,
        gpus=_gpus(declared, workers),
        python=_python(declared),
        network=str(declared.cluster["network"]["cidr"]),
        minutes=min(_MINUTES, (partition["max_time"] or _MINUTES * 60) // 60) or 1,
        folder=f"{storage['mount']}/validation/results",
    )


def _find_pods(declared: Inventory, scheduler: Mapping[str, Any], nodes: int | None, *, kill_worker: bool) -> TrainingSite:
    """Return where a stack with Kubernetes trains: in the first namespace that has a user and a claim on the shared file system."""
    if not any(one["name"] == "trainer" for one in scheduler.get("addons") or ()):
        hint = "add `addons: [jobset, trainer]` under `scheduler`, and run `up`"
        raise _missing(declared, "has no Kubeflow Trainer, which runs training jobs on Kubernetes", hint)
    image = scheduler.get("training_image")
    if not image:
        hint = "add `training_image: bundle` (PyTorch for CPUs), or an image with PyTorch, under `scheduler`, and run `up`"
        raise _missing(declared, "has no image for training pods", hint)
    hosts = [name for name in scheduler["submit_hosts"] if name in declared.nodes]
    if not hosts:
        raise _missing(declared, "has no node to create pods from", "give a group the role `login`")
    namespace = next((one for one in scheduler["namespaces"] if one["users"] and one["claim_mib"] is not None), None)
    if namespace is None:
        hint = "add one under `scheduler`, for example `namespaces: {research: {users: [alice], shared_volume: 4GiB}}`"
        raise _missing(declared, "has no namespace with a user and a claim on the shared file system", hint)
    names = tuple(one["name"] for one in scheduler["nodes"] if one["runs_workloads"] and one["name"] in declared.nodes)
    wanted = nodes or len(names)
    _require_workers(declared, len(names), wanted, "that run pods", kill_worker=kill_worker)
    storage, user = declared.cluster["storage"][0], _user(declared, str(namespace["users"][0]))
    volume = f"{storage['mount']}/kubernetes/{namespace['name']}"
    return TrainingSite(
        submit_host=hosts[0],
        user=str(user["name"]),
        mount=str(storage["mount"]),
        file_system=str(storage["kind"]),
        partition="",
        workers=names,
        nodes=wanted,
        gpus=_gpus(declared, names),
        python="python3",
        network=str(scheduler["pods"]),
        minutes=_MINUTES,
        folder=f"{volume}/training",
        pods=PodPlace(str(namespace["name"]), str(image), volume, int(user["uid"]), int(user["gid"]), names),
    )


def _user(declared: Inventory, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(one for one in declared.cluster["users"] if one["name"] == name)
    return found


def _require_workers(declared: Inventory, present: int, wanted: int, where: str, *, kill_worker: bool) -> None:
    if not present or wanted > present:
        hint = "increase the `count` of a group with the role worker" if present else "declare a group with the role worker"
        raise _missing(declared, f"has {present} workers {where} (expected {max(wanted, 1)})", hint)
    if kill_worker and declared.target not in node_kill.TARGETS:
        hint = "run it without --kill-worker, and end a worker in another way"
        raise InputError(f"kills nodes of the targets lab and vm only (found target {declared.target})", path="--kill-worker", hint=hint)
    if kill_worker and wanted < 2:
        raise InputError("needs two workers: one that is lost and one that notices", path="--kill-worker", hint="declare a second worker")


def _storage(declared: Inventory, needed: set[str]) -> Mapping[str, Any]:
    """Return a file system that all these nodes mount and every user may write to."""
    for one in declared.cluster.get("storage") or ():
        if needed <= set(one["clients"]) and one["mode"] and int(one["mode"], 8) & 0o002:
            return dict(one)
    hint = "add one under `storage` without `clients`, for example `sharedfs: {kind: moosefs, mount: /mnt/sharedfs, size: 4GiB}`"
    raise _missing(declared, "has no shared file system that login nodes and workers mount and users may write to", hint)


def _gpus(declared: Inventory, workers: Sequence[str]) -> int:
    if "gpu" in declared.simulated:
        return 0
    return min(int((declared.nodes[name].get("gpus") or {}).get("count", 0)) for name in workers)


def _python(declared: Inventory) -> str:
    found = declared.node_stack.get("pytorch")
    if not found:
        hint = 'add `software: {pytorch: {source: debian}}` (Debian 13, CPUs) or `{pytorch: {version: "2.8.0"}}`, and run `up`'
        raise _missing(declared, "has no PyTorch on its workers", hint)
    return "/usr/bin/python3" if found.get("source") == PytorchSource.DEBIAN.value else f"{found['folder']}/bin/python"


def _missing(declared: Inventory, cause: str, hint: str) -> InputError:
    return InputError(cause, path=f"stack {declared.stack}", hint=hint)
