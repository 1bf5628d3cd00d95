"""What holds for the change from any cluster to any other."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.edited_stack import described, edited

from rackwright.impact import Action, impact
from rackwright.stackfile.diff import edits

from .conftest import LAB

calm = settings(derandomize=True)


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    """The lab with other counts, nodes that are out, and more or fewer of everything."""
    said = edited(LAB, groups__worker__count=draw(st.integers(1, 6)), groups__storage__count=draw(st.integers(1, 3)))
    out = draw(st.sets(st.sampled_from([f"worker{index}" for index in range(1, 6)])))
    return {
        **said,
        "users": draw(st.sampled_from([{}, {"alice": {"uid": 2001}}, {"alice": {"uid": 2001}, "bob": {"uid": 2002, "admin": True}}])),
        "nodes": {name: {"state": "out", "reason": "bad DIMM"} for name in sorted(out)},
        "verify_level": draw(st.sampled_from(["checks", "smoke"])),
        "time_zone": draw(st.sampled_from(["Etc/UTC", "Europe/Berlin"])),
    }


@calm
@given(clusters())
def test_what_is_described_as_it_was_applied_changes_nothing(said: dict[str, Any]) -> None:
    assert impact(described(said), described(copy.deepcopy(said))) == ()


@calm
@given(clusters(), clusters())
def test_every_node_that_comes_or_goes_is_named_once_and_workers_are_drained(old: dict[str, Any], new: dict[str, Any]) -> None:
    before, after = described(old), described(new)
    found = impact(before, after)
    names = {node.name: node for node in before.plan.nodes}
    now = {node.name: node for node in after.plan.nodes}

    def subjects(*actions: Action) -> list[str]:
        return sorted(name for consequence in found if consequence.action in actions for name in consequence.affected)

    assert subjects(Action.DRAIN) == sorted(n for n in names if n not in now and n.startswith("worker") and names[n].is_in)
    assert subjects(Action.REMOVE) == sorted(n for n in names if n not in now and not (n.startswith("worker") and names[n].is_in))
    assert subjects(Action.EXCLUDE) == sorted(n for n in names if n in now and names[n].is_in and not now[n].is_in)
    assert subjects(Action.ADD) == sorted(n for n in now if now[n].is_in and not (n in names and names[n].is_in))


@calm
@given(clusters(), clusters())
def test_every_edited_field_is_the_reason_of_something(old: dict[str, Any], new: dict[str, Any]) -> None:
    before, after = described(old), described(new)
    reasons = {path for consequence in impact(before, after) for path in consequence.caused_by}
    untold = [str(edit) for edit in edits(before.cluster, after.cluster) if not any(f"{edit}.".startswith(f"{path}.") for path in reasons)]
    assert untold == []
