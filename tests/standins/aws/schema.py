"""pulumi_aws's schema of its resources: names and types of inputs and outputs, read from the package's own classes."""

from __future__ import annotations

import collections.abc
import enum
import importlib
import inspect
import sys
import threading
import typing
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pulumi import Output
from pulumi import _types as wheel

from rackwright.provider.protocol.property_values import UNKNOWN

_ONE_AT_A_TIME: Final = threading.RLock()
"""pulumi_aws loads its modules lazily and is not thread-safe: two threads at a first import get "module has no attribute 'Vpc'"."""


@dataclass(frozen=True)
class Failure:
    """One input that does not fit."""

    property: str
    reason: str


class Shape:
    """Inputs and outputs of one resource type, by wire name."""

    def __init__(self, token: str) -> None:
        cls = _resource_class(token)
        module = sys.modules[cls.__module__]
        # "Init" where a nested type has the plain name already.
        self.arguments = getattr(module, f"{cls.__name__}InitArgs", None) or getattr(module, f"{cls.__name__}Args")
        self.inputs: dict[str, Any] = wheel.input_type_types(self.arguments)
        self.outputs: dict[str, Any] = wheel.resource_types(cls)

    def failures(self, inputs: dict[str, Any]) -> list[Failure]:
        """Return every input that does not fit; `__defaults` is the provider's own."""
        return list(_structure("", {key: value for key, value in inputs.items() if key != "__defaults"}, self.arguments))


def shape(token: str) -> Shape:
    """Return the shape of a resource type. Raise KeyError where pulumi_aws has no such type."""
    with _ONE_AT_A_TIME:
        return _shape(token)


@cache
def _shape(token: str) -> Shape:
    return Shape(token)


def _resource_class(token: str) -> type:
    _, module, name = token.split(":")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of other resource types
            found: type = getattr(importlib.import_module(f"pulumi_aws.{module.split('/')[0]}"), name)
    except (ImportError, AttributeError):
        raise KeyError(token) from None
    return found


def properties(cls: Any) -> dict[str, Any] | None:
    """Return wire names and types of a nested type; None for a type that is not nested."""
    if not isinstance(cls, type):
        return None
    with _ONE_AT_A_TIME:
        if wheel.is_output_type(cls):
            return wheel.output_type_types(cls)
        return wheel.input_type_types(cls) if wheel.is_input_type(cls) else None


def alternatives(kind: Any) -> tuple[Any, ...]:
    """Return the possible types of a value, without those that mean "later".

    >>> alternatives(str | None)
    (<class 'str'>,)
    """
    if typing.get_origin(kind) is not typing.Union and not isinstance(kind, type(str | None)):
        return (kind,)
    later = (collections.abc.Awaitable, Output)
    return tuple(one for one in typing.get_args(kind) if one is not type(None) and (typing.get_origin(one) or one) not in later)


def item_of(kind: Any) -> Any:
    """Return the type of a list's items or a map's values; None for other types."""
    for one in alternatives(kind):
        if typing.get_origin(one) in (collections.abc.Sequence, collections.abc.Mapping, list, dict):
            return typing.get_args(one)[-1]
    return None


def is_list(kind: Any) -> bool:
    """Return whether the type is a list."""
    return any(typing.get_origin(one) in (collections.abc.Sequence, list) for one in alternatives(kind))


def is_map(kind: Any) -> bool:
    """Return whether the type is a map of free keys."""
    return any(typing.get_origin(one) in (collections.abc.Mapping, dict) for one in alternatives(kind))


def _required(arguments: Any) -> frozenset[str]:
    names = wheel.input_type_py_to_pulumi_names(arguments)
    parameters = inspect.signature(arguments.__init__).parameters.values()
    return frozenset(names[one.name] for one in parameters if one.name in names and one.default is inspect.Parameter.empty)


def _structure(path: str, value: dict[str, Any], arguments: Any) -> Iterator[Failure]:
    with _ONE_AT_A_TIME:
        known, required = wheel.input_type_types(arguments), _required(arguments)
    for name in sorted(required - value.keys()):
        yield Failure(_join(path, name), "is required")
    for name, given in value.items():
        if name not in known:
            yield Failure(_join(path, name), f"pulumi_aws knows no such property of {arguments.__name__.removesuffix('Args')}")
        else:
            yield from _value(_join(path, name), given, known[name])


def _value(path: str, value: Any, kind: Any) -> Iterator[Failure]:
    if value is None or value == UNKNOWN:
        return
    nested = [one for one in alternatives(kind) if properties(one) is not None]
    item = item_of(kind)
    if isinstance(value, dict) and nested:
        yield from _structure(path, value, nested[0])
    elif isinstance(value, list) and is_list(kind):
        for index, one in enumerate(value):
            yield from _value(f"{path}[{index}]", one, item)
    elif isinstance(value, dict) and is_map(kind):
        for key, one in value.items():
            yield from _value(_join(path, key), one, item)
    elif not any(_fits(value, one) for one in alternatives(kind)):
        wanted = " or ".join(sorted({getattr(one, "__name__", str(one)) for one in alternatives(kind)}))
        yield Failure(path, f"expected {wanted}, got {type(value).__name__}")


def _fits(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return isinstance(value, str)
    return isinstance(kind, type) and isinstance(value, kind)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
