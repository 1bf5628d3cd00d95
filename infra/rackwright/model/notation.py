"""Refusal of a value in a stack file, and types of values that match a pattern."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

from pydantic import WithJsonSchema
from pydantic_core import PydanticCustomError

_SHOWN: Final = 40
"""Characters of a number that a message shows. Chosen."""


def refuse(rule: str, cause: str, hint: str) -> NoReturn:
    """Refuse a value in a pydantic validator by raising PydanticCustomError; `load` turns it into a finding."""
    raise PydanticCustomError(rule, "{cause}", {"cause": cause, "hint": hint})


def hint_of(error: PydanticCustomError) -> str:
    """Return the hint of an error that `refuse` raised."""
    return str((error.context or {})["hint"])


def cut(text: str) -> str:
    """Return the beginning of a text: messages stay readable."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def word(rule: str, pattern: str, longest: int, what: str, hint: str) -> Callable[[object], str]:
    """Return a validator of text that matches a pattern and is at most `longest` characters long."""

    def check(value: object) -> str:
        if not isinstance(value, str):
            refuse(
                rule,
                f"{value!r} is not {what}",
                f"write one value; {hint}" if isinstance(value, list | dict) else f"write it in quotes; {hint}",
            )
        if not re.fullmatch(pattern, value):
            refuse(rule, f"`{value}` is not {what}", hint)
        if len(value) > longest:
            refuse(rule, f"`{value}` has {len(value)} characters", f"use at most {longest}")
        return value

    return check


def text_schema(pattern: str, **more: Any) -> WithJsonSchema:
    """Return the JSON schema of text that matches a pattern."""
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$", **more})
