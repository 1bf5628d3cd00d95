"""Cables of a real fabric: moved by hand; a run only reports cables that have not been moved yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.impact.planned_change import Action, PlannedChange, Transition
from rackwright.model.update_policy import UpdatePolicy
from rackwright.plan.fabric import Cable, Wiring, wiring
from rackwright.plan.schema import Plan

_LIST: Final = "run `rackwright fabric cables STACK` to list the cables; jobs that use a cable end when it is unplugged"
_MOST_MOVED: Final = "set `fabric.max_nodes` from the start: a fabric planned for more nodes moves no cables"


def cables(step: Transition) -> Iterator[PlannedChange]:
    """Yield cables that people must plug in, move and pull out."""
    if _is_simulated(step.new.plan) or _is_simulated(step.old.plan):
        return
    old, new = wiring(step.old.plan), wiring(step.new.plan)
    before, after = _ends(old), _ends(new)
    moved = sum(1 for end, cable in after.items() if end in before and before[end] != cable)
    come, gone = len(after.keys() - before.keys()), len(before.keys() - after.keys())
    words = ", ".join(filter(None, (_count(moved, "move"), _count(come, "add"), _count(gone, "remove"), _switches(old, new))))
    if not words:
        return
    why = step.why(("fabric",), ("groups", "*", "count"), ("groups", "*", "reserved_addresses"), changes=_CAUSES)
    hint = f"{_LIST}\n  {_MOST_MOVED}" if moved else _LIST
    yield PlannedChange(Action.RECABLE, ("fabric",), why, f"requires manual work on the fabric: {words}", hint)


_CAUSES: Final = (UpdatePolicy.RECABLE, UpdatePolicy.MEMBERS, UpdatePolicy.RENUMBER, UpdatePolicy.RUN)


def _is_simulated(plan: Plan) -> bool:
    return plan.fabric is not None and plan.fabric.simulated


def _ends(laid: Wiring) -> dict[tuple[str, int], Cable]:
    """Return the end of each cable that is nearer to the nodes -> the cable."""
    return {(cable.device, cable.port): cable for cable in laid.cables}


def _count(cables: int, verb: str) -> str:
    return f"{cables} cable{'' if cables == 1 else 's'} to {verb}" if cables else ""


def _switches(old: Wiring, new: Wiring) -> str:
    more = len(new.switches) - len(old.switches)
    return f"{abs(more)} switch{'' if abs(more) == 1 else 'es'} {'more' if more > 0 else 'fewer'}" if more else ""
