"""Remaining consequences: users, settings applied in place, settings of runs, and edits that change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.impact.planned_change import Action, PlannedChange, Transition
from rackwright.model.update_policy import UpdatePolicy
from rackwright.stackfile.diff import Edit, Kind

_COUNTED: Final = ("groups", "nodes", "access", "scheduler")
"""Sections whose affected daemons or nodes follow from the plan: if it names none, none is affected."""
_PRECISE: Final = (UpdatePolicy.RESTART, UpdatePolicy.REPLACE)


def users(step: Transition) -> Iterator[PlannedChange]:
    """Yield users that are created, removed or changed."""
    for name in dict.fromkeys(edit.path[1] for edit in step.edits if edit.within("users", "*") and edit.change is UpdatePolicy.LIVE):
        of_user = [edit for edit in step.edits if edit.within("users", name) and edit.change is UpdatePolicy.LIVE]
        kind = of_user[0].kind if len(of_user[0].path) == 2 else Kind.CHANGED
        fields = ", ".join(edit.path[2] for edit in of_user if len(edit.path) > 2)
        words = {Kind.ADDED: f"creates user {name}", Kind.REMOVED: f"removes user {name}, whose files stay"}.get(
            kind, f"changes {fields} of user {name}"
        )
        yield PlannedChange(Action.CHANGE, (name,), tuple(map(str, of_user)), words)


def remaining(step: Transition, covered: frozenset[str]) -> Iterator[PlannedChange]:
    """Yield the edits without a consequence so far, each with the text of its update policy."""
    uncovered = [edit for edit in step.edits if not any(f"{edit}.".startswith(f"{path}.") for path in covered)]
    rows: dict[tuple[Action, str], list[str]] = {}
    for edit in uncovered:
        rows.setdefault(_by_policy(edit), []).append(str(edit))
    for (action, words), why in rows.items():
        yield PlannedChange(action, (), tuple(why), words)


def _by_policy(edit: Edit) -> tuple[Action, str]:
    if edit.within("verify_level"):
        return Action.NOTE, f"verifies at level {edit.new}"
    if edit.within("hooks"):
        if edit.kind is Kind.REMOVED:
            return Action.NOTE, f"no longer runs {edit}; its earlier changes stay"
        return Action.CHANGE, f"runs {edit}; its interruptions are unknown"
    if edit.change is UpdatePolicy.NEW:
        return Action.NOTE, "applies to new nodes only"
    if edit.change is UpdatePolicy.LIVE:
        return Action.CHANGE, f"sets {edit} in place"
    if edit.change is UpdatePolicy.RECABLE:
        return Action.NOTE, "moves no cable"
    if edit.change in _PRECISE and edit.path[0] not in _COUNTED:
        return (
            (Action.RESTART, f"restarts the daemons that read {edit}")
            if edit.change is UpdatePolicy.RESTART
            else (Action.REPLACE, f"replaces the resources that use {edit}")
        )
    if edit.change is UpdatePolicy.DATA_LOSS:
        return (Action.ADD, f"creates {edit}") if edit.kind is Kind.ADDED else (Action.DESTROY, f"deletes the data of {edit}")
    return Action.NOTE, "affects runs only; no node changes" if edit.change is UpdatePolicy.RUN else "changes nothing on any node"
