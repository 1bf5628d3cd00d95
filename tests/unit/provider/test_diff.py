"""Differences name the property that differs and say what it takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rackwright.provider.lab.node import Node
from rackwright.provider.protocol.diff import PropertyDiffKind, diff_properties
from rackwright.provider.protocol.resource import RecordedState

_TREES = st.dictionaries(
    st.sampled_from("abc"), st.integers() | st.dictionaries(st.sampled_from("xyz"), st.integers(), max_size=3), max_size=3
)


@given(_TREES)
def test_equal_inputs_differ_in_nothing(tree: dict[str, object]) -> None:
    assert diff_properties(tree, tree).changes == {}


@given(_TREES, _TREES)
def test_different_inputs_differ_in_something(old: dict[str, object], new: dict[str, object]) -> None:
    assert bool(diff_properties(old, new).changes) == (old != new or any(value is None for value in {**old, **new}.values()))


def test_the_path_leads_to_what_changed() -> None:
    found = diff_properties({"hosts": {"worker-0": {"instance_uid": "a"}}}, {"hosts": {"worker-0": {"instance_uid": "b"}}})
    assert found.changes == {'hosts["worker-0"].instance_uid': PropertyDiffKind.UPDATE}


def test_added_and_removed_properties_are_told_apart() -> None:
    assert diff_properties({"a": 1}, {"b": 1}).changes == {"a": PropertyDiffKind.DELETE, "b": PropertyDiffKind.ADD}


def test_a_forced_replacement_says_which_property_forces_it() -> None:
    assert diff_properties({"cidr": "a"}, {"cidr": "b"}, replace_on=frozenset({"cidr"})).replaces == ["cidr"]


def test_another_image_leaves_a_node_that_exists_alone() -> None:
    olds = {"image": "old", "address": "10.0.0.1"}
    assert Node().diff(RecordedState("n", olds, olds), {**olds, "image": "new"}).changes == {}


def test_another_address_replaces_the_node() -> None:
    olds = {"image": "old", "address": "10.0.0.1"}
    assert Node().diff(RecordedState("n", olds, olds), {**olds, "address": "10.0.0.2"}).replaces == ["address"]
