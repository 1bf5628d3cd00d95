"""Hints for field errors whose type does not say what to write: derived from the expected type and the field's description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TOO_DEEP = "the file is nested too deep"


def type_hint(kind: str, value: object, keys: str, description: str) -> str:
    """Return what to write where pydantic expected another type; `keys`: valid keys of the expected mapping, empty if any key is valid."""
    if value is None:
        return "add a value, or remove the key"
    if kind == "int_type" and isinstance(value, str) and value.strip().isdigit():
        return "remove the quotes"
    if kind in {"dict_type", "model_type"}:
        return f"write keys below it, indented: {keys}" if keys else "write `name: value` below it, indented"
    wanted = {
        "string_type": "write the value in quotes",
        "tuple_type": "write the value in brackets, like [a, b]",
        "bool_type": "write true or false, without quotes",
        "int_type": "write a whole number without quotes or unit, like 4",
        "float_type": "write a number without quotes or unit, like 2.5",
    }
    return wanted.get(kind) or described(description)


def bound(kind: str, value: str, context: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return cause and hint for a number that is out of range or a value that is too long; None for other errors."""
    if kind == "greater_than_equal":
        return f"{value} is too small", f"use at least {context['ge']}"
    if kind == "greater_than":
        return f"{value} is too small", f"use more than {context['gt']}, or remove the key"
    if kind == "less_than_equal":
        return f"{value} is too large", f"use at most {context['le']}"
    if kind == "less_than":
        return f"{value} is too large", f"use less than {context['lt']}"
    if kind in {"too_long", "string_too_long"}:
        what = "items" if kind == "too_long" else "characters"
        return f"has more than {context['max_length']} {what}", f"use at most {context['max_length']}"
    if kind in {"too_short", "string_too_short"}:
        what = "items" if kind == "too_short" else "characters"
        return f"has fewer than {context['min_length']} {what}", f"use at least {context['min_length']}, or remove the key"
    return None


def invalid_json(message: str) -> tuple[str, str]:
    """Return cause and hint for a description that pydantic cannot read at all: nested too deep, or with a number that JSON lacks."""
    if "recursion" in message:
        return TOO_DEEP, "check the indentation and the brackets: no description needs more than ten levels"
    return "holds a value that JSON cannot express", "replace `.nan` and `.inf` by numbers"


def described(description: str) -> str:
    """Return the field's description as a hint."""
    return f"expected: {description}" if description else "compare the key with its description: `rackwright schema` prints all"
