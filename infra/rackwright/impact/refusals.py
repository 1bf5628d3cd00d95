"""Edits that `up` refuses, because the result would be neither the old nor the new cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.impact.nodes import replaced
from rackwright.impact.planned_change import Action, PlannedChange, Transition, alike, named
from rackwright.model.update_policy import UpdatePolicy
from rackwright.stackfile.diff import Edit, Kind

_UNDO: Final = "undo the edit, or run `rackwright down`, which deletes the stack's data, and then `rackwright up`"
_USER: Final = "remove the user, run `up`, then add the user with the new UID; files keep the old UID"
_ENDPOINT: Final = (
    "keep `control_plane_vip`, or a single controller if there is none: every node stores the address of the control plane. "
    "To grow, declare `scheduler.control_plane_vip` from the start: run `rackwright down` and `rackwright up` with it, "
    "and apply the cluster's objects again"
)
_BLOCKS: Final = (
    "keep the groups and their `reserved_addresses`, and add new groups at the end: "
    "addresses follow groups and `reserved_addresses` in order"
)
_NAMES: Final = (
    "keep the names of existing nodes, and add new names at the end of `names`; for other names, reduce the count of the group, "
    "run `up`, then change `names` and add the nodes again"
)
_HOME: Final = "keep its first server, because `up` does not move data; or declare a new file system, copy the data and remove this one"
_ROLE: Final = "reduce the count of its group, run `up`, then add the node again with its new role"


def forbidden(step: Transition) -> Iterator[PlannedChange]:
    """Yield fields that cannot be edited while the stack is up."""
    for edit in step.edits:
        if edit.change is UpdatePolicy.FORBIDDEN:
            hint = _USER if edit.within("users", "*", "uid") else _ENDPOINT if edit.within("scheduler", "control_plane_vip") else _UNDO
            yield PlannedChange(Action.REFUSE, (str(edit),), (str(edit),), f"{_said(edit)}: refused", hint)


def _said(edit: Edit) -> str:
    if edit.kind is Kind.CHANGED:
        return f"changes {edit} from {edit.old} to {edit.new}"
    return f"{'adds' if edit.kind is Kind.ADDED else 'removes' if edit.kind is Kind.REMOVED else 'reorders'} {edit}"


def renumbered(step: Transition) -> Iterator[PlannedChange]:
    """Yield groups whose nodes would get other addresses in the same network because of an edit before them."""
    if step.on_machines or step.old.plan.network.cidr != step.new.plan.network.cidr:
        return
    moved = [new for old, new in step.stay if old.address != new.address]
    blocks = [edit for edit in step.edits if edit.change is UpdatePolicy.RENUMBER or _shifts(edit)]
    why = tuple(str(edit) for edit in blocks)
    for group, names in alike(moved, lambda node: node.group).items():
        yield PlannedChange(Action.REFUSE, (group, *names), why, f"renumbers group {group}: refused", _BLOCKS)


def _shifts(edit: Edit) -> bool:
    """Return whether the edit moves the groups after it: an added, removed or moved group, or roles that need another capacity."""
    return edit.within("groups") and (len(edit.path) <= 2 or edit.path[2] == "roles")


def renamed(step: Transition) -> Iterator[PlannedChange]:
    """Yield groups whose nodes would get other names: the old and the new node would have one address."""
    before = {(node.group, node.index): node.name for node in step.old.plan.nodes}
    moved = [(before[place], node) for node in step.new.plan.nodes if before.get(place := (node.group, node.index), node.name) != node.name]
    for group in dict.fromkeys(node.group for _, node in moved):
        pairs = [(old, node.name) for old, node in moved if node.group == group]
        why = step.why(("groups", group, "names"))
        words = f"renames {named([old for old, _ in pairs])} to {named([new for _, new in pairs])}: refused"
        yield PlannedChange(Action.REFUSE, (group, *(old for old, _ in pairs)), why, words, _NAMES)


def moved_data(step: Transition) -> Iterator[PlannedChange]:
    """Yield file systems whose first server, which has the metadata, would be another."""
    before = {shared.name: shared for shared in step.old.plan.storage}
    for shared in step.new.plan.storage:
        old = before.get(shared.name)
        if old is not None and old.servers and shared.servers and old.servers[0] != shared.servers[0]:
            why = step.why(("storage", shared.name), ("groups",), ("nodes",), changes=[UpdatePolicy.MEMBERS])
            words = f"moves {shared.mount} from {old.servers[0]} to {shared.servers[0]}, without its data: refused"
            yield PlannedChange(Action.REFUSE, (shared.name,), why, words, _HOME)


def lost_roles(step: Transition) -> Iterator[PlannedChange]:
    """Yield roles removed from nodes that stay: their daemons would keep running, unmonitored."""
    anew = replaced(step)
    for old, new in step.stay:
        gone = [role.value for role in old.roles if role not in new.roles]
        if gone and new.name not in anew:
            why = step.why(("groups", new.group, "roles"))
            words = f"removes the role {named(gone)} from {new.name}, whose daemons would keep running: refused"
            yield PlannedChange(Action.REFUSE, (new.name,), why, words, _ROLE)
