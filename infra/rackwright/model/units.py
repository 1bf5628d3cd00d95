"""Sizes, durations, days, ratios and file modes, parsed once on loading. Internally, sizes are bytes, durations seconds."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer, PlainValidator, WithJsonSchema

from rackwright.model.notation import cut, refuse, text_schema, word

_BINARY: Final = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MAX_BYTES: Final = 2**63 - 2**40
"""Whole TiB in 63 bits: Kubernetes reduces larger quantities silently (apimachinery: api/resource/quantity.go), and no file is larger."""
_MAX_SECONDS: Final = 2**31 - 60
"""time_str2mins of Slurm adds 59 s to a signed number of 32 bits. 68 years are enough for all other times, too."""
_SIZE: Final = r"[0-9]+(\.[0-9]+)?(KiB|MiB|GiB|TiB)"
_DURATION: Final = r"([0-9]+[smhd])+"
_MODE: Final = r"[0-7]{3,4}"
_NON_BLOCKING, _MOST_DOWN = 1, 16
_RATIO: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*:\s*([1-9][0-9]*)\s*")
_DAY: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})([T ]00:00:00(Z| \+0000 UTC))?")
"""A day; Pulumi adds the tail to an unquoted day when it rewrites or passes on a stack file."""


def parse_bytes(text: object) -> int:
    """Return a size in bytes, rounded down to whole KiB.

    >>> parse_bytes("1.5GiB")
    1610612736
    """
    if isinstance(text, int) and not isinstance(text, bool):
        refuse("size", f"{text} has no unit", f"write {text}MiB or {text}GiB")
    if not isinstance(text, str) or not re.fullmatch(_SIZE, text):
        refuse("size", f"{text!r} is not a size", _size_hint(text))
    number, unit = text[:-3], text[-3:]
    if float(number) * _BINARY[unit] > _MAX_BYTES:
        refuse(
            "size",
            f"`{cut(text)}` is too large",
            f"use at most {_MAX_BYTES // 2**40}TiB: a size has 63 bits (Linux: loff_t; Kubernetes: quantity)",
        )
    return int(float(number) * _BINARY[unit]) // 1024 * 1024


def _size_hint(text: object) -> str:
    close = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt])(i?b)?\s*", str(text), re.IGNORECASE)
    if close:
        return f"write {close[1]}{close[2].upper()}iB"
    return "write a number and KiB, MiB, GiB or TiB, like 2GiB"


def parse_seconds(text: object) -> int:
    """Return a duration in seconds.

    >>> parse_seconds("1h30m")
    5400
    """
    if isinstance(text, int) and not isinstance(text, bool):
        refuse("duration", f"{text} has no unit", f"write {text}s or {text}m")
    if not isinstance(text, str) or not re.fullmatch(_DURATION, text):
        refuse("duration", f"{text!r} is not a duration", _duration_hint(text))
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in re.findall(r"([0-9]+)([smhd])", text))
    if seconds > _MAX_SECONDS:
        cause = f"`{cut(text)}` is too long"
        refuse("duration", cause, f"use at most {_MAX_SECONDS // 86400}d: Slurm counts seconds in 31 bits (Slurm: src/common/parse_time.c)")
    return int(seconds)


def _duration_hint(text: object) -> str:
    """Return what to write instead of a time of Slurm (sbatch(1), --time): days-hours:minutes:seconds."""
    found = re.fullmatch(r"(?:(?P<d>[0-9]+)-)?(?P<h>[0-9]+):(?P<m>[0-9]{2})(?::(?P<s>[0-9]{2}))?", str(text))
    if found is None:
        return "write numbers with s, m, h or d, like 5m or 1h30m"
    parts = found.groupdict(default="0")
    if found["d"] is None and found["s"] is None:  # minutes:seconds
        parts = {"d": "0", "h": "0", "m": parts["h"], "s": parts["m"]}
    return f"write {''.join(f'{int(number)}{unit}' for unit, number in parts.items() if int(number)) or '0s'}"


def format_bytes(size: int) -> str:
    """Return a size in the notation of stack files.

    >>> format_bytes(2147483648)
    '2GiB'
    """
    for unit, factor in reversed(_BINARY.items()):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return "0MiB"


def format_seconds(seconds: int) -> str:
    """Return a duration in the notation of stack files.

    >>> format_seconds(5400)
    '90m'
    """
    for unit, factor in reversed(_SECONDS.items()):
        if seconds >= factor and seconds % factor == 0:
            return f"{seconds // factor}{unit}"
    return "0s"


def mebibytes(size: int) -> int:
    """Return bytes as whole MiB, rounded down: the unit of Slurm and the roles."""
    return size // 2**20


def parse_day(value: object) -> date:
    """Return a calendar day; accept the format in which Pulumi passes on an unquoted day."""
    if isinstance(value, date):
        return value
    spoken = _DAY.fullmatch(str(value))
    try:
        return date.fromisoformat(spoken[1] if spoken else "")
    except ValueError:
        refuse("day", f"`{value}` is not a day", "write year-month-day, like 2026-12-01")


def parse_ratio(value: object) -> float | int:
    """Return downlinks per uplink, written as a number or as a ratio.

    >>> parse_ratio("3:2"), parse_ratio(2), parse_ratio("2:1")
    (1.5, 2, 2)
    """
    ratio = _RATIO.fullmatch(value) if isinstance(value, str) else None
    number = float(ratio[1]) / int(ratio[2]) if ratio else value
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        refuse("ratio", f"`{value}` is not a ratio", "write downlinks per uplink, like 2, 1.5 or 3:2")
    if not _NON_BLOCKING <= number <= _MOST_DOWN:
        refuse("ratio", f"`{value}` is out of range", f"use {_NON_BLOCKING}, which is non-blocking, to {_MOST_DOWN}")
    return int(number) if number == int(number) else number


Bytes = Annotated[
    int, BeforeValidator(parse_bytes), PlainSerializer(format_bytes, when_used="json"), text_schema(_SIZE, examples=["512MiB", "2GiB"])
]
Seconds = Annotated[
    int, BeforeValidator(parse_seconds), PlainSerializer(format_seconds, when_used="json"), text_schema(_DURATION, examples=["30s", "5m"])
]
Mode = Annotated[
    str, BeforeValidator(word("mode", _MODE, 4, "a file mode", 'use three or four octal digits, like "1777"')), text_schema(_MODE)
]
Ratio = Annotated[
    float | int,
    PlainValidator(parse_ratio),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 1, "maximum": 16}, {"type": "string", "pattern": "^[0-9.]+:[0-9]+$"}]}),
]
Day = Annotated[date, PlainValidator(parse_day), WithJsonSchema({"type": "string", "format": "date"})]
