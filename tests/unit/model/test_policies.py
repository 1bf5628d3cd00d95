"""What editing a field does to a cluster that is up: said beside every field, and found between two descriptions."""

from __future__ import annotations

from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest

from rackwright.model import Cluster
from rackwright.model.base import ConfigModel
from rackwright.model.target import Target
from rackwright.model.update_policy import OnTarget, UpdatePolicy
from rackwright.stackfile.diff import Kind, edits, policy_of
from rackwright.stackfile.load import load_cluster

LAB: dict[str, Any] = {
    "target": {"kind": "lab"},
    "network": {"cidr": "10.77.0.0/24"},
    "groups": {"login": {"count": 1, "roles": ["login", "controller"]}, "worker": {"count": 2}},
}


def described(**more: Any) -> Cluster:
    """A small lab with something else."""
    loaded = load_cluster({**LAB, **more})
    assert loaded.cluster is not None, loaded.findings
    return loaded.cluster


def members(kind: Any) -> list[Any]:
    """The types a field may have, without Annotated and None."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        return [found for member in get_args(kind) for found in members(member)]
    return [] if kind is type(None) else [kind]


def parts_in(kind: Any) -> list[type[ConfigModel]]:
    """The parts a field may hold: as its value, or as the values of its mapping."""
    return [
        part
        for member in members(kind)
        for part in (members(get_args(member)[1]) if get_origin(member) is dict else [member])
        if isinstance(part, type) and issubclass(part, ConfigModel)
    ]


def may_be_empty(part: type[ConfigModel]) -> bool:
    return not any(field.is_required() for field in part.model_fields.values())


def without_policy(model: type[ConfigModel], path: str = "") -> Iterator[str]:
    """Fields without a statement of what editing them does."""
    for name, field in model.model_fields.items():
        place, inner = f"{path}.{name}".lstrip("."), parts_in(field.annotation)
        always_there = bool(inner) and all(member in inner for member in members(field.annotation)) and not _optional(field.annotation)
        if policy_of(field, "lab") is None and not always_there and not (inner and all(map(may_be_empty, inner))):
            yield place
        for part in inner:
            yield from without_policy(part, f"{place}.{part.__name__}")


def _optional(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType) and type(None) in get_args(kind)


def test_every_field_a_user_may_write_says_what_editing_it_does() -> None:
    """`Annotated[..., Change.LIVE]` beside the field; see rackwright.model.update_policy."""
    assert list(without_policy(Cluster)) == []


class Inner(ConfigModel):
    size: int


class Outer(ConfigModel):
    named: dict[str, Inner] = {}
    one: Inner | None = None
    said: Annotated[int, UpdatePolicy.LIVE] = 1


def test_fields_and_entries_that_say_nothing_are_found() -> None:
    assert list(without_policy(Outer)) == ["named", "named.Inner.size", "one", "one.Inner.size"]


def test_exceptions_are_about_targets_that_exist() -> None:
    kinds = {get_args(target.model_fields["kind"].annotation)[0] for target in members(Target)}
    named = {name for part in _all_parts(Cluster) for field in part.model_fields.values() for name in _excepted(field)}
    assert named and named <= kinds


def _all_parts(model: type[ConfigModel]) -> Iterator[type[ConfigModel]]:
    yield model
    for field in model.model_fields.values():
        for part in parts_in(field.annotation):
            yield from _all_parts(part)


def _excepted(field: Any) -> list[str]:
    return [name for said in field.metadata if isinstance(said, OnTarget) for name in said.targets]


@pytest.mark.parametrize(
    ("more", "path", "kind", "change"),
    [
        ({"verify_level": "full"}, "verify_level", Kind.CHANGED, UpdatePolicy.RUN),
        ({"network": {"cidr": "10.78.0.0/24"}}, "network.cidr", Kind.CHANGED, UpdatePolicy.REPLACE),
        ({"users": {"bob": {"uid": 2002}}}, "users.bob", Kind.ADDED, UpdatePolicy.LIVE),
        ({"groups": {"login": LAB["groups"]["login"]}}, "groups.worker", Kind.REMOVED, UpdatePolicy.MEMBERS),
        ({"groups": dict(reversed(LAB["groups"].items()))}, "groups", Kind.MOVED, UpdatePolicy.MEMBERS),
        ({"nodes": {"worker1": {"state": "out", "reason": "bad DIMM"}}}, "nodes.worker1.state", Kind.CHANGED, UpdatePolicy.MEMBERS),
        ({"nodes": {"worker1": {"gpus": {"count": 0}}}}, "nodes.worker1.gpus.count", Kind.ADDED, UpdatePolicy.REPLACE),
        (
            {"scheduler": {"kind": "slurm", "power_saving": {"suspend_time": "5m"}}},
            "scheduler.power_saving",
            Kind.ADDED,
            UpdatePolicy.RESTART,
        ),
    ],
)
def test_an_edit_is_the_field_with_its_policy(more: dict[str, Any], path: str, kind: Kind, change: UpdatePolicy) -> None:
    found = {str(edit): (edit.kind, edit.change) for edit in edits(described(), described(**more))}
    assert found[path] == (kind, change)
    assert all(other.startswith("nodes.worker1.") for other in found if other != path), found


def test_another_target_is_one_edit() -> None:
    machine = {"address": "10.77.0.2", "host_key": "SHA256:" + "0" * 43}
    hosts = {"kind": "hosts", "os": "debian-13", "machines": dict.fromkeys(("login0", "worker0", "worker1"), machine)}
    assert [(str(edit), edit.change) for edit in edits(described(), described(target=hosts))] == [("target.kind", UpdatePolicy.FORBIDDEN)]


def test_what_was_not_edited_is_no_edit() -> None:
    assert edits(described(), described(nodes={"worker1": {}}, verify_level="smoke")) == ()
