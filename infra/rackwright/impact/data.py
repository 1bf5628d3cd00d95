"""File systems and other data that outlives a node: created, mounted, lost."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.impact.planned_change import Action, PlannedChange, Transition, named
from rackwright.plan.schema import Plan, Storage, Volume


def lost(step: Transition) -> Iterator[PlannedChange]:
    """Yield data that is lost: of file systems, and of nodes that leave or lose a role. Data on existing machines stays there."""
    now = {shared.name for shared in step.new.plan.storage}
    for shared in step.old.plan.storage:
        if shared.name not in now:
            action, words = _removal(step, shared)
            yield PlannedChange(action, (shared.name,), (f"storage.{shared.name}",), words)
    if step.on_machines:
        return
    kept = {volume.name for volume in step.new.plan.volumes}
    for volume in step.old.plan.volumes:
        what = _content(volume, step.new.plan)
        if volume.name not in kept and what:
            yield PlannedChange(Action.DESTROY, (volume.node,), _why(step, volume), f"deletes {what} on {volume.node}")


def _removal(step: Transition, shared: Storage) -> tuple[Action, str]:
    if shared.existing is not None:
        return Action.CHANGE, f"leaves {shared.mount} mounted, which `up` does not unmount; nothing on {shared.existing.source} is deleted"
    if step.on_machines:
        return Action.CHANGE, f"leaves {shared.mount} served and mounted"
    return Action.DESTROY, f"deletes {shared.mount} and all data on it"


def _content(volume: Volume, plan: Plan) -> str | None:
    if volume.purpose == "storage":
        part = [shared for shared in plan.storage if volume.name == f"{volume.node}-{shared.name}"]
        return f"its share of {part[0].mount}" if part else None
    return {
        "accounting": "the accounting database",
        "scheduler": "Slurm's queue and job numbers",
        # The other members have all of it.
        "etcd": None if plan.scheduler.controllers else "etcd's data, all objects of the cluster",
    }.get(volume.purpose)


def _why(step: Transition, volume: Volume) -> tuple[str, ...]:
    node = step.old.plan.node(volume.node)
    return step.why(("groups", node.group), *([("storage",)] if volume.purpose == "storage" else []))


def made(step: Transition) -> Iterator[PlannedChange]:
    """Yield new file systems."""
    before = {shared.name for shared in step.old.plan.storage}
    for shared in step.new.plan.storage:
        if shared.name not in before:
            existing = shared.existing
            words = (
                f"mounts {shared.mount} from {existing.source}"
                if existing
                else f"creates {shared.mount}, served by {named(shared.servers)}"
            )
            yield PlannedChange(Action.ADD, (shared.name,), (f"storage.{shared.name}",), words)


def mounts(step: Transition) -> Iterator[PlannedChange]:
    """Yield added mounts, and mounts that are no longer managed: no role unmounts them."""
    old, now = {shared.name: shared for shared in step.old.plan.storage}, step.new.plan.storage
    there = {new.name for before, new in step.stay if before.is_in and new.is_in}
    for shared in now:
        if shared.name not in old:
            continue
        before, why = old[shared.name], step.why(("storage", shared.name, "mount"), ("storage", shared.name, "clients"))
        come = [name for name in shared.clients if name in there and not _mounts(before, name, shared.mount)]
        left = [name for name in before.clients if name in there and not _mounts(shared, name, before.mount)]
        if come and why:
            yield PlannedChange(Action.CHANGE, tuple(come), why, f"mounts {shared.mount} on {named(come)}")
        if left and why:
            yield PlannedChange(
                Action.CHANGE, tuple(left), why, f"leaves {before.mount} mounted on {named(left)}: `up` does not unmount it"
            )


def _mounts(shared: Storage, node: str, mount: str) -> bool:
    return node in shared.clients and shared.mount == mount
