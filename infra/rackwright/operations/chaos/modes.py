"""The kinds of failures: which nodes can receive one, how long it lasts, who undoes it, and what it is not in a lab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from rackwright.errors import InputError
from rackwright.inventory.reader import Inventory


class Mode(StrEnum):
    """What fails."""

    RANK_KILL = "rank_kill"
    NODE_KILL = "node_kill"
    NODE_PAUSE = "node_pause"
    GPU_OOM = "gpu_oom"
    GPU_LOST = "gpu_lost"
    XID = "xid"
    NETWORK_SLOW = "network_slow"
    NETWORK_CUT = "network_cut"
    STORAGE_STALL = "storage_stall"
    SCHEDULER_RESTART = "scheduler_restart"


class Hold(StrEnum):
    """What keeps a failure in place, and so what ends it."""

    MOMENT = "moment"
    """Nothing: it is over when it has happened."""
    UNIT = "unit"
    """A transient unit of the node's systemd, which ends by itself."""
    LEASE = "lease"
    """A lease on this machine, since the node cannot undo it."""


class Place(StrEnum):
    """Which nodes can receive a failure."""

    WORKER = "worker"
    CONTROLLER = "controller"
    STORAGE = "storage"


@dataclass(frozen=True)
class ModeSpec:
    """A kind of failure."""

    place: Place
    hold: Hold
    seconds: int = 0
    """Seconds that it lasts."""
    ends_step: bool = False
    """Whether a training run on the node cannot continue without a restart."""
    is_checked: bool = False
    """Whether the node health check reports it."""
    simulated: str = ""
    """What differs from the failure of a real machine."""


SPECS: Final[Mapping[Mode, ModeSpec]] = {
    Mode.RANK_KILL: ModeSpec(Place.WORKER, Hold.MOMENT, ends_step=True),
    # 20 s, as in the measured runs of `rackwright demo --kill-worker` (docs/workloads/training-slurm.md).
    Mode.NODE_KILL: ModeSpec(
        Place.WORKER, Hold.LEASE, 20, ends_step=True, simulated="the kernel of this machine resets the connections of a killed container"
    ),
    # The other durations are chosen: shorter than the 60 s after which ranks give up a connection, so that a job can survive them.
    Mode.NODE_PAUSE: ModeSpec(Place.WORKER, Hold.LEASE, 20),
    Mode.GPU_OOM: ModeSpec(Place.WORKER, Hold.MOMENT, ends_step=True, simulated="memory of a rank on a CPU, not of a GPU"),
    Mode.GPU_LOST: ModeSpec(Place.WORKER, Hold.UNIT, 45, is_checked=True, simulated="a simulated GPU"),
    Mode.XID: ModeSpec(Place.WORKER, Hold.UNIT, 45, is_checked=True, simulated="a line in the simulated kernel log"),
    Mode.NETWORK_SLOW: ModeSpec(Place.WORKER, Hold.UNIT, 30, simulated="bandwidth only (tbf); no added latency or loss"),
    Mode.NETWORK_CUT: ModeSpec(Place.WORKER, Hold.UNIT, 20),
    Mode.STORAGE_STALL: ModeSpec(Place.STORAGE, Hold.UNIT, 15, simulated="a suspended chunk server of MooseFS"),
    Mode.SCHEDULER_RESTART: ModeSpec(Place.CONTROLLER, Hold.MOMENT),
}


def require_supported(mode: Mode, declared: Inventory) -> None:
    """Raise InputError with the reason if a stack cannot have this failure."""
    if why := refusal(mode, declared):
        raise InputError(f"{mode.value}: {why}", path="--mode", hint=f"choose another mode for stack {declared.stack}")


def refusal(mode: Mode, declared: Inventory) -> str:
    """Return why a stack cannot have this failure; empty if it can."""
    kinds = {str(one["kind"]) for one in declared.cluster.get("storage") or ()}
    if mode is Mode.NODE_PAUSE and declared.target != "lab":
        return f"nodes are paused on target lab only (found target {declared.target})"
    if mode in (Mode.GPU_LOST, Mode.XID) and "gpu" not in declared.simulated:
        return "only simulated GPUs can be lost"
    if mode in (Mode.GPU_LOST, Mode.XID) and not candidates(mode, declared):
        return "no worker has a GPU"
    if mode is Mode.STORAGE_STALL and kinds != {"moosefs"}:
        return f"only chunk servers of MooseFS can be stalled (found {', '.join(sorted(kinds)) or 'no shared file system'})"
    return "" if candidates(mode, declared) else "no node can receive it"


def candidates(mode: Mode, declared: Inventory) -> tuple[str, ...]:
    """Return the nodes that can receive a failure, in the order of the plan."""
    place = SPECS[mode].place
    scheduler = declared.cluster["scheduler"]
    if place is Place.CONTROLLER:
        return _in(scheduler["controllers"][:1], declared)
    if place is Place.STORAGE:
        return _in([name for one in declared.cluster.get("storage") or () for name in one["servers"]], declared)
    workers = _in(declared.members("role_worker"), declared)
    if mode in (Mode.GPU_LOST, Mode.XID):
        return tuple(name for name in workers if _gpus(declared.nodes[name]))
    return tuple(name for name in workers if set(declared.nodes[name]["roles"]) == {"worker"})


def affected(mode: Mode, target: str, declared: Inventory) -> tuple[str, ...]:
    """Return the nodes whose jobs a failure can disturb: its own, or all for one of the controller or of a file system."""
    return (target,) if SPECS[mode].place is Place.WORKER else tuple(declared.nodes)


def _in(names: Sequence[str], declared: Inventory) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(names) if name in declared.nodes)


def _gpus(record: Mapping[str, Any]) -> int:
    return int((record.get("gpus") or {}).get("count", 0))
