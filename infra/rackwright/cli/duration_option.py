"""Durations as options of commands."""

from __future__ import annotations

from pydantic_core import PydanticCustomError

from rackwright.errors import InputError
from rackwright.model.notation import hint_of
from rackwright.model.units import parse_seconds


def parse_duration(option: str, text: str) -> int:
    """Return a duration in seconds, at least one. Raises InputError for another text."""
    try:
        seconds = parse_seconds(text)
    except PydanticCustomError as error:
        raise InputError(str(error), path=option, hint=hint_of(error)) from None
    if seconds < 1:
        raise InputError("is too short (expected at least 1s)", path=option, hint="write for example 60s or 10m")
    return seconds
