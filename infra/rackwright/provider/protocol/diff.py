"""Differences between recorded and new inputs, as property paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class PropertyDiffKind(StrEnum):
    """Kind of change of one property."""

    ADD = "add"
    DELETE = "delete"
    UPDATE = "update"
    ADD_REPLACE = "add-replace"
    DELETE_REPLACE = "delete-replace"
    UPDATE_REPLACE = "update-replace"


@dataclass(frozen=True)
class DiffResult:
    """Changes by property path, and whether the old resource is deleted before its replacement is created."""

    changes: dict[str, PropertyDiffKind] = field(default_factory=dict)
    delete_before_replace: bool = True

    @property
    def replaces(self) -> list[str]:
        """Return the properties that force a replacement."""
        return [path for path, change in self.changes.items() if change.value.endswith("-replace")]

    def with_change(self, path: str, change: PropertyDiffKind = PropertyDiffKind.UPDATE) -> DiffResult:
        """Return the result with one more changed property."""
        return DiffResult({**self.changes, path: change}, self.delete_before_replace)

    def in_place(self, paths: Iterable[str]) -> DiffResult:
        """Return the result with these properties as changes in place, which replace nothing."""
        kept = frozenset(paths)
        return DiffResult(
            {path: PropertyDiffKind(change.removesuffix("-replace")) if path in kept else change for path, change in self.changes.items()},
            self.delete_before_replace,
        )


def diff_properties(
    olds: Mapping[str, Any], news: Mapping[str, Any], *, replace_on: frozenset[str] = frozenset(), ignore: frozenset[str] = frozenset()
) -> DiffResult:
    """Return the changes of top-level properties. `ignore` leaves properties out; those in `replace_on` force a replacement.

    >>> diff_properties({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3}}).changes
    {'b.c': <PropertyDiffKind.UPDATE: 'update'>}
    """
    changes: dict[str, PropertyDiffKind] = {}
    for key in sorted((olds.keys() | news.keys()) - ignore):
        for path, change in _walk(key, olds.get(key), news.get(key)).items():
            changes[path] = PropertyDiffKind(f"{change}-replace") if key in replace_on else change
    return DiffResult(changes)


def _walk(path: str, old: Any, new: Any) -> dict[str, PropertyDiffKind]:
    if old == new:
        return {}
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        found: dict[str, PropertyDiffKind] = {}
        for key in sorted(old.keys() | new.keys()):
            found |= _walk(_join(path, key), old.get(key), new.get(key))
        return found
    if old is None:
        return {path: PropertyDiffKind.ADD}
    return {path: PropertyDiffKind.DELETE if new is None else PropertyDiffKind.UPDATE}


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if key.isidentifier() else f'{path}["{key}"]'
