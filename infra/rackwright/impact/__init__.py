"""Derive what `up` will do from the last applied and the current description. Pure; the most disruptive consequences come first."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.impact import data, fabric, nodes, refusals, services, settings
from rackwright.impact.planned_change import DISRUPTIVE, Action, ClusterPlan, PlannedChange, Transition, named
from rackwright.model.targets.hosts import HostsTarget

__all__ = ["DISRUPTIVE", "Action", "ClusterPlan", "PlannedChange", "impact"]

_REFUSALS = (refusals.forbidden, refusals.renumbered, refusals.renamed, refusals.moved_data, refusals.lost_roles)
_SUBJECTS = (
    data.lost,
    nodes.recreated,
    nodes.removed,
    services.consequences,
    fabric.cables,
    nodes.revalidated,
    nodes.added,
    data.made,
    data.mounts,
    settings.users,
)


def impact(old: ClusterPlan | None, new: ClusterPlan) -> tuple[PlannedChange, ...]:
    """Return everything that `up` will do, or only the refusals if there are any. Empty without consequences.

    `old` is None before the first `up`.
    """
    if old is None:
        return (_first(new),)
    step = Transition(old, new)
    refused = tuple(consequence for subject in _REFUSALS for consequence in subject(step))
    if refused:
        return refused
    order = list(Action)
    return tuple(sorted(_all(step), key=lambda consequence: order.index(consequence.action)))


def _first(new: ClusterPlan) -> PlannedChange:
    names = tuple(node.name for node in new.plan.nodes)
    verb, what = ("adopts", "machine") if isinstance(new.cluster.target, HostsTarget) else ("creates", "node")
    return PlannedChange(Action.ADD, names, (), f"{verb} {len(names)} {what}{'' if len(names) == 1 else 's'}: {named(names)}")


def _all(step: Transition) -> Iterator[PlannedChange]:
    found = [consequence for subject in _SUBJECTS for consequence in subject(step)]
    yield from found
    yield from settings.remaining(step, frozenset(path for consequence in found for path in consequence.caused_by))
    if not step.old.converged:
        yield PlannedChange(Action.REAPPLY, (), (), "applies all phases again: the last run did not succeed")
