"""Property values as Pulumi sends them: protobuf structs with marked secrets and an unknown sentinel.

Signatures are those of the SDK: pulumi/sdk/python/lib/pulumi/runtime/rpc.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format, struct_pb2

_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""Placeholder of a value that is unknown before `up`."""

Properties = dict[str, Any]


@dataclass(frozen=True)
class Secret:
    """A value that must be encrypted in the state and hidden in output."""

    value: Any

    def __repr__(self) -> str:
        return "Secret(…)"


def decode(struct: struct_pb2.Struct) -> Properties:
    """Return the struct as plain data; secrets stay wrapped in `Secret`, whole numbers become ints."""
    return {key: _decode(value) for key, value in json_format.MessageToDict(struct).items()}


def encode(properties: Mapping[str, Any]) -> struct_pb2.Struct:
    """Return plain data with `Secret` wrappers as a struct."""
    struct = struct_pb2.Struct()
    struct.update({key: _encode(value) for key, value in properties.items()})
    return struct


def unwrap_secrets(value: Any) -> Any:
    """Return the value with every secret unwrapped, at any depth."""
    if isinstance(value, Secret):
        return unwrap_secrets(value.value)
    if isinstance(value, Mapping):
        return {key: unwrap_secrets(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [unwrap_secrets(item) for item in value]
    return value


def has_unknown(value: Any) -> bool:
    """Return whether an unknown value occurs anywhere inside."""
    if isinstance(value, Secret):
        return has_unknown(value.value)
    if isinstance(value, Mapping):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(has_unknown(item) for item in value)
    return isinstance(value, str) and value == UNKNOWN


def secrets_in(value: Any) -> list[str]:
    """Return every secret text inside, for redaction."""
    if isinstance(value, Secret):
        return _texts(value.value)
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in secrets_in(item)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in secrets_in(item)]
    return []


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    return []


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get(_SIGNATURE) == _SECRET:
            return Secret(_decode(value.get("value")))
        return {key: _decode(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _encode(value: Any) -> Any:
    if isinstance(value, Secret):
        return {_SIGNATURE: _SECRET, "value": _encode(value.value)}
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    return value
