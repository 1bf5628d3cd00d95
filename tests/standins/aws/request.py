"""A resource's inputs as an API request: walks the service's own model and assigns each input by its name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rackwright.provider.protocol.property_values import UNKNOWN

Renames = Mapping[str, str]
"""AWS name by input name, where the two differ by more than case and a plural s."""


def plain_name(name: str) -> str:
    """Return a name without case and plural.

    >>> plain_name("SecurityGroupIds") == plain_name("securityGroupId")
    True
    """
    return name.lower().rstrip("s")


def request(shape: Any, inputs: Mapping[str, Any], renames: Renames) -> tuple[dict[str, Any], list[str]]:
    """Return the request, and the paths of inputs without a place in it."""
    homeless: list[str] = []
    return _structure(shape, inputs, renames, "", homeless), homeless


def member(shape: Any, name: str, renames: Renames) -> str | None:
    """Return the member of a structure to which an input belongs."""
    renamed = renames.get(name)
    if renamed in shape.members:
        return renamed
    return next((one for one in shape.members if plain_name(one) == plain_name(name)), None)


def _structure(shape: Any, inputs: Mapping[str, Any], renames: Renames, path: str, homeless: list[str]) -> dict[str, Any]:
    made = {}
    for name, value in inputs.items():
        if value is None:
            continue
        found = member(shape, name, renames)
        if found is None:
            homeless.append(path + name)
        else:
            made[found] = _value(shape.members[found], value, renames, f"{path}{name}.", homeless)
    return made


def _value(shape: Any, value: Any, renames: Renames, path: str, homeless: list[str]) -> Any:
    if value == UNKNOWN:
        raise ValueError(f"{path.rstrip('.')} is not known; a real call cannot be made with it")
    if shape.type_name == "structure":
        one = value[0] if isinstance(value, list) else value
        return _structure(shape, one, renames, path, homeless)
    if shape.type_name == "list":
        if isinstance(value, dict) and _is_pair(shape.member):
            return pairs(value)
        items = value if isinstance(value, list) else [value]
        return [_value(shape.member, item, renames, path, homeless) for item in items]
    if shape.type_name == "map":
        return {key: _value(shape.value, item, renames, path, homeless) for key, item in value.items()}
    return _scalar(shape.type_name, value)


def _scalar(kind: str, value: Any) -> Any:
    if kind in ("integer", "long"):
        return int(value)
    if kind in ("float", "double"):
        return float(value)
    if kind == "boolean":
        return value if isinstance(value, bool) else str(value).lower() == "true"
    if kind == "blob":
        return value if isinstance(value, bytes) else str(value).encode()
    if kind == "string" and not isinstance(value, str | bytes):
        return json.dumps(value) if isinstance(value, dict | list | bool) else str(value)
    return value


def pairs(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return a map as AWS writes tags."""
    return [{"Key": key, "Value": str(value)} for key, value in sorted(tags.items())]


def _is_pair(shape: Any) -> bool:
    return shape.type_name == "structure" and set(shape.members) == {"Key", "Value"}
