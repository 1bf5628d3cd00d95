"""The window of time that a query of logs asks for, as the user writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from rackwright.errors import InputError

EXAMPLES: Final = "write `30m`, `1h30m`, `2d`, `today`, `10:15`, `2026-11-27`, `2026-11-27 10:15`, `2026-11-27T10:15:00Z` or `@1795795846`"
_UNITS: Final = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_AGO: Final = re.compile(r"(?:\d+(?:\.\d+)?\s*(?:s|sec|m|min|h|d|w)\s*)+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")


@dataclass(frozen=True, slots=True)
class Window:
    """A span of time in seconds of the epoch; None has no limit."""

    since: float | None
    until: float | None


def read_window(since: str | None, until: str | None, now: datetime) -> Window:
    """Return the window of two options; raise InputError for a text that is no time, and for a window without content.

    `now` has a time zone; times without one are meant in it.
    """
    window = Window(
        read_time(since, now, "--since") if since is not None else None, read_time(until, now, "--until") if until is not None else None
    )
    if window.since is not None and window.since > now.timestamp():
        raise InputError(f"`{since}` is in the future", path="--since", hint=EXAMPLES)
    if window.since is not None and window.until is not None and window.since >= window.until:
        raise InputError(f"`{since}` is not before `{until}`", path="--since", hint="exchange the values of --since and --until")
    return window


def read_time(text: str, now: datetime, option: str) -> float:
    """Return a time in seconds of the epoch: an age, a time of today, a date, a date with a time, seconds after `@`.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 11, 27, 12, tzinfo=UTC)
    >>> [noon.timestamp() - read_time(text, noon, "") for text in ("1h30m", "2 d", "today", "10:15", "2026-11-27T11:00+01:00", "now")]
    [5400.0, 172800.0, 43200.0, 6300.0, 7200.0, 0.0]
    """
    if not text.isascii():
        raise InputError(f"`{text}` is not a time", path=option, hint=EXAMPLES)
    asked = text.strip().lower().removesuffix(" ago").removeprefix("-")
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    named = {"now": now, "today": midnight, "yesterday": midnight - timedelta(days=1)}
    try:
        if asked in named:
            return named[asked].timestamp()
        if re.fullmatch(r"@\d+(\.\d+)?", asked):
            return float(asked[1:])
        if _AGO.fullmatch(asked):
            return now.timestamp() - sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(asked))
        if re.fullmatch(r"\d{1,2}:\d\d(:\d\d)?", asked):
            hour, minute, *second = map(int, asked.split(":"))
            return midnight.replace(hour=hour, minute=minute, second=second[0] if second else 0).timestamp()
        if not re.fullmatch(r"\d{4}-\d\d-\d\d.*", asked):
            raise ValueError(asked)
        found = datetime.fromisoformat(text.strip())
        return (found if found.tzinfo else found.replace(tzinfo=now.tzinfo)).timestamp()
    except (ValueError, OverflowError, KeyError):
        raise InputError(f"`{text}` is not a time", path=option, hint=EXAMPLES) from None
