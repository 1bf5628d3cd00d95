"""Nodes that are added, removed, recreated or revalidated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rackwright.impact.planned_change import Action, ClusterPlan, PlannedChange, Transition, alike, named
from rackwright.model.groups import Role
from rackwright.model.targets.hosts import HostsTarget
from rackwright.model.update_policy import UpdatePolicy
from rackwright.plan.schema import Plan, PlanNode

_SCHEDULERS = {"slurm": "Slurm", "kubernetes": "Kubernetes"}
_SHAPE = (UpdatePolicy.REPLACE, UpdatePolicy.MEMBERS, UpdatePolicy.DATA_LOSS)
_HARDWARE = tuple((head, "*", what) for head in ("groups", "nodes") for what in ("cpus", "memory", "gpus"))


def replaced(step: Transition) -> frozenset[str]:
    """Return the nodes that are recreated under the same name."""
    if step.on_machines:
        return frozenset()
    forced = [edit for edit in step.edits if edit.change is UpdatePolicy.REPLACE and edit.path[0] == "target"]
    return frozenset(
        new.name
        for old, new in step.stay
        if _identity(step.old, old) != _identity(step.new, new) or any(step.concerns(edit, new) for edit in forced)
    )


def _identity(described: ClusterPlan, node: PlanNode) -> tuple[Any, ...]:
    """Return the properties of a created node that cannot change without recreating it."""
    plan = described.plan
    volumes = {volume.mount: volume.name for volume in plan.volumes if volume.node == node.name}
    published = (plan.access.listen, plan.access.ports[node.name]) if node.name in plan.access.ports else None
    own = (published, node.gpus.count if node.gpus else 0) if plan.target.publishes_ports else ()
    return (node.address, node.mac, volumes, *own)


def added(step: Transition) -> Iterator[PlannedChange]:
    """Yield nodes that are new, that return to service, and that get a role."""
    before = {node.name: node for node in step.old.plan.nodes}
    fresh = [node for node in step.new.plan.nodes if node.name not in before and node.is_in]
    for (works, why), names in alike(fresh, lambda node: (_takes_jobs(node), _membership(step, node))).items():
        yield PlannedChange(Action.ADD, tuple(names), why, f"adds {named(names)}{_joining(step, works, names)}")
    back = [new for old, new in step.stay if new.is_in and not old.is_in]
    for (works, why), names in alike(back, lambda node: (_takes_jobs(node), step.why(("nodes", node.name, "state")))).items():
        yield PlannedChange(Action.ADD, tuple(names), why, f"returns {named(names)} to service{_joining(step, works, names)}")
    made = replaced(step)
    for old, new in step.stay:
        gained = [role.value for role in new.roles if role not in old.roles]
        if gained and new.name not in made:
            yield PlannedChange(
                Action.ADD, (new.name,), step.why(("groups", new.group)), f"adds the role {', '.join(gained)} to {new.name}"
            )


def _joining(step: Transition, works: bool, names: list[str]) -> str:
    it = "them" if len(names) > 1 else "it"
    return f", joins {it} to {_SCHEDULERS[step.new.plan.scheduler.kind]} and verifies {it}" if works else f" and verifies {it}"


def _membership(step: Transition, node: PlanNode) -> tuple[str, ...]:
    group = ("groups", node.group)
    found = step.why((*group, "count"), changes=[UpdatePolicy.MEMBERS])
    return found or tuple(path for path in step.why(group, changes=[UpdatePolicy.MEMBERS]) if path == ".".join(group))


def removed(step: Transition) -> Iterator[PlannedChange]:
    """Yield nodes that are removed, permanently or temporarily."""
    kept = {node.name for node in step.new.plan.nodes}
    gone = [node for node in step.old.plan.nodes if node.name not in kept]
    for (works, why), names in alike(gone, lambda node: (_takes_jobs(node), _membership(step, node))).items():
        end = _end(step, many=len(names) > 1)
        words = f"drains {named(names)}, then {end}" if works else f"{end.split()[0]} {named(names)}{_tail(step)}"
        yield PlannedChange(Action.DRAIN if works else Action.REMOVE, tuple(names), why, words)
    out = [old for old, new in step.stay if old.is_in and not new.is_in]
    for (works, why), names in alike(out, lambda node: (_takes_jobs(node), step.why(("nodes", node.name, "state")))).items():
        scheduler = f"{_SCHEDULERS[step.new.plan.scheduler.kind]}, " if works else ""
        words = f"removes {named(names)} from {scheduler}phases and checks{', without draining first' if works else ''}"
        yield PlannedChange(Action.EXCLUDE, tuple(names), why, words)


def _takes_jobs(node: PlanNode) -> bool:
    return Role.WORKER in node.roles and node.is_in


def _end(step: Transition, *, many: bool) -> str:
    it = "them" if many else "it"
    return f"releases {it}{_tail(step)}" if step.on_machines else f"removes {it}"


def _tail(step: Transition) -> str:
    """Return how existing machines are released: unchanged, or cleaned."""
    target = step.new.cluster.target
    return f" (on_removal: {target.on_removal.value})" if isinstance(target, HostsTarget) else ""


def recreated(step: Transition) -> Iterator[PlannedChange]:
    """Yield the nodes that are recreated, all at once and without draining, and the data that survives."""
    names = replaced(step)
    nodes = [new for _, new in step.stay if new.name in names]
    for (ends, why), found in alike(nodes, lambda node: (_ends(step, node), _shape_edits(step, node))).items():
        yield PlannedChange(Action.REPLACE, tuple(found), why, f"replaces {named(found)}{ends}")
    before = {volume.name for volume in step.old.plan.volumes}
    kept = [volume for volume in step.new.plan.volumes if volume.name in before and volume.node in names]
    for shared in step.new.plan.storage:
        if any(volume.purpose == "storage" and volume.name.endswith(f"-{shared.name}") for volume in kept):
            yield PlannedChange(Action.KEEP, (shared.name,), (), f"keeps {shared.mount} and its data")
    for purpose, what in (("accounting", "the accounting database"), ("scheduler", "Slurm's queue"), ("etcd", "etcd's data")):
        on = tuple(volume.node for volume in kept if volume.purpose == purpose)
        if on:
            yield PlannedChange(Action.KEEP, on, (), f"keeps {what} of {named(on)}")


def _ends(step: Transition, node: PlanNode) -> str:
    away = [shared.mount for shared in step.new.plan.storage if node.name in shared.servers]
    away += _control_away(step.new.plan) if Role.CONTROLLER in node.roles else []
    ended = " without draining first: jobs there end" if _takes_jobs(node) else ": sessions there end"
    return f"{ended}; {' and '.join(away)} unavailable meanwhile" if away else ended


def _control_away(plan: Plan) -> list[str]:
    """Return the service that is unavailable without the controller; with several Kubernetes controllers, none."""
    if plan.scheduler.kind == "slurm":
        return ["Slurm"]
    return ["the Kubernetes API"] if len(plan.scheduler.controllers) == 1 else []


def _shape_edits(step: Transition, node: PlanNode) -> tuple[str, ...]:
    return step.why(changes=[UpdatePolicy.REPLACE], node=node) or step.why(
        ("groups", "*", "roles"), ("groups", "*", "reserved_addresses"), ("storage",), changes=(*_SHAPE, UpdatePolicy.RENUMBER), node=node
    )


def revalidated(step: Transition) -> Iterator[PlannedChange]:
    """Yield machines whose description changes: the run stops if a machine differs from it."""
    if not step.on_machines:
        return
    nodes = [new for _, new in step.stay if new.is_in]
    for why, names in alike(nodes, lambda node: _adoption_edits(step, node)).items():
        if why:
            yield PlannedChange(
                Action.ADOPT, tuple(names), why, f"revalidates {named(names)}, and stops if a machine differs from its description"
            )


def _adoption_edits(step: Transition, node: PlanNode) -> tuple[str, ...]:
    return step.why(changes=[UpdatePolicy.ADOPT], node=node) + step.why(*_HARDWARE, changes=[UpdatePolicy.RESTART], node=node)
