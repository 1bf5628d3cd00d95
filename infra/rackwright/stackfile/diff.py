"""Edits between two stack files, each with the change policy of its field.

A policy is `Annotated[..., UpdatePolicy.LIVE]` on the field, with `OnTarget(lab=UpdatePolicy.REPLACE)` if a target differs. On a
mapping or an optional part, the policy applies to added and removed entries. Without a policy, the part may be empty, and its fields
have policies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic.fields import FieldInfo

from rackwright.model.base import ConfigModel
from rackwright.model.cluster import Cluster
from rackwright.model.update_policy import OnTarget, UpdatePolicy


class Kind(StrEnum):
    """Kind of an edit of a field or of a mapping's entry."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    MOVED = "moved"
    """The entries are the same, but their order changed."""


@dataclass(frozen=True)
class Edit:
    """One edit of a stack file."""

    path: tuple[str, ...]
    kind: Kind
    change: UpdatePolicy
    old: Any
    new: Any

    def __str__(self) -> str:
        return ".".join(self.path)

    def within(self, *pattern: str) -> bool:
        """Return whether the path starts with the pattern, in which `*` matches any key.

        >>> Edit(("groups", "worker", "count"), Kind.CHANGED, UpdatePolicy.MEMBERS, 1, 2).within("groups", "*", "count")
        True
        """
        return len(self.path) >= len(pattern) and all(wanted in ("*", part) for wanted, part in zip(pattern, self.path, strict=False))


def policy_of(field: FieldInfo, target: str) -> UpdatePolicy | None:
    """Return the change policy of the field on a target, or None if the field has none."""
    usual = next((each for each in field.metadata if isinstance(each, UpdatePolicy)), None)
    others = next((each.targets for each in field.metadata if isinstance(each, OnTarget)), {})
    return others.get(target, usual)


def edits(old: Cluster, new: Cluster) -> tuple[Edit, ...]:
    """Return the edits between two stack files, in the order of the model's fields."""
    return tuple(_edits(old, new, (), new.target.kind))


def _edits(old: ConfigModel, new: ConfigModel, path: tuple[str, ...], target: str) -> Iterator[Edit]:
    if type(old) is not type(new):
        change = policy_of(type(new).model_fields["kind"], target) or UpdatePolicy.FORBIDDEN
        yield Edit((*path, "kind"), Kind.CHANGED, change, getattr(old, "kind", None), getattr(new, "kind", None))
        return
    for name, field in type(new).model_fields.items():
        before, after, place = getattr(old, name), getattr(new, name), (*path, name)
        policy = policy_of(field, target)
        if policy is None:
            before, after = _or_empty(before, after), _or_empty(after, before)
        if isinstance(before, ConfigModel) and isinstance(after, ConfigModel):
            yield from _edits(before, after, place, target)
        elif isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _entries(before, after, place, policy, target)
        elif before != after:
            yield Edit(place, _kind(before, after), policy or UpdatePolicy.FORBIDDEN, before, after)


def _entries(
    old: Mapping[str, Any], new: Mapping[str, Any], path: tuple[str, ...], change: UpdatePolicy | None, target: str
) -> Iterator[Edit]:
    for key in dict.fromkeys((*old, *new)):
        before, after = old.get(key), new.get(key)
        if change is None:
            before, after = _or_empty(before, after), _or_empty(after, before)
        if isinstance(before, ConfigModel) and isinstance(after, ConfigModel):
            yield from _edits(before, after, (*path, key), target)
        elif before != after:
            yield Edit((*path, key), _kind(before, after), change or UpdatePolicy.FORBIDDEN, before, after)
    if change and [key for key in old if key in new] != [key for key in new if key in old]:
        yield Edit(path, Kind.MOVED, change, tuple(old), tuple(new))


def _or_empty(value: Any, other: Any) -> Any:
    """Return the value, or an empty part of the other's type: a missing part is equivalent to an empty one."""
    return type(other)() if value is None and isinstance(other, ConfigModel) else value


def _kind(old: object, new: object) -> Kind:
    return Kind.ADDED if old is None else Kind.REMOVED if new is None else Kind.CHANGED
