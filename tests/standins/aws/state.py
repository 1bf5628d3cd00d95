"""From what an API describes to a resource's outputs, each fitted to the type pulumi_aws declares for it."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from standins.aws import schema
from standins.aws.request import Renames, plain_name

Properties = dict[str, Any]
_ABSENT: Final = object()


def outputs(kinds: Mapping[str, Any], described: Mapping[str, Any], renames: Renames) -> Properties:
    """Return the declared outputs in the description.

    A value of a type that the program cannot read is left out: it would crash the program.
    """
    by_plain_name = {plain_name(key): value for key, value in described.items()}
    found = {}
    for name, kind in kinds.items():
        value = described.get(renames.get(name, ""), by_plain_name.get(plain_name(name)))
        fitted = _fitted(value, kind, renames)
        if fitted is not _ABSENT:
            found[name] = fitted
    return found


def _fitted(value: Any, kind: Any, renames: Renames) -> Any:
    """Return the value in the declared type; the package flattens lists with at most one item."""
    if value is None:
        return _ABSENT
    if schema.is_list(kind):
        items = [_fitted(item, schema.item_of(kind), renames) for item in (value if isinstance(value, list) else [value])]
        return [item for item in items if item is not _ABSENT]
    if isinstance(value, list) and not schema.is_map(kind):
        return _fitted(value[0], kind, renames) if len(value) == 1 else _ABSENT
    for one in schema.alternatives(kind):
        fitted = _fitted_one(value, one, renames)
        if fitted is not _ABSENT:
            return fitted
    return _ABSENT


def _fitted_one(value: Any, kind: Any, renames: Renames) -> Any:
    nested = schema.properties(kind)
    if nested is not None:
        return outputs(nested, value, renames) if isinstance(value, dict) else _ABSENT
    if schema.is_map(kind):
        return tags_as_map(value) if isinstance(value, list) else value if isinstance(value, dict) else _ABSENT
    if isinstance(kind, type) and not issubclass(kind, enum.Enum):
        return _scalar(value, kind)
    return _ABSENT


def _scalar(value: Any, kind: type) -> Any:
    if kind is str:
        return _text(value)
    if kind is bool:
        return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower(), _ABSENT)
    if kind in (int, float) and not isinstance(value, bool):
        try:
            return kind(value)
        except (TypeError, ValueError):
            return _ABSENT
    return _ABSENT


def _text(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | str):
        return str(value)
    return _ABSENT


def tags_as_map(tags: list[dict[str, str]]) -> dict[str, str]:
    """Return tags as AWS lists them, without those of AWS itself."""
    return {tag["Key"]: tag["Value"] for tag in tags if not tag["Key"].startswith("aws:")}


def overlay(given: Any, seen: Any) -> Any:
    """Return the live input: itself where both are equal in meaning, else the live value."""
    if seen is None:
        return given
    if isinstance(given, dict) and isinstance(seen, dict):
        return {key: overlay(value, seen.get(key)) for key, value in given.items()}
    if isinstance(given, list) and isinstance(seen, list):
        return _overlaid_list(given, seen)
    return given if _same(given, seen) else seen


def _overlaid_list(given: list[Any], seen: list[Any]) -> list[Any]:
    if len(given) != len(seen):
        return seen
    if all(isinstance(item, dict) for item in given):
        return [overlay(one, other) for one, other in zip(given, seen, strict=True)]
    return given if sorted(map(str, given)) == sorted(map(str, seen)) else seen


def _same(given: Any, seen: Any) -> bool:
    if given == seen:
        return True
    if isinstance(given, dict | str) and isinstance(seen, str):
        return _document(given) is not None and _document(given) == _document(seen)
    if isinstance(given, int | float) and isinstance(seen, int | float):
        return float(given) == float(seen)
    return False


def _document(value: Any) -> Any:
    """Return a policy as data, in any notation."""
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        try:
            return json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, dict) else None
