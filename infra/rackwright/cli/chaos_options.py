"""Values of options of `rackwright chaos`."""

from __future__ import annotations

import re

from rackwright.cli.duration_option import parse_duration
from rackwright.errors import InputError
from rackwright.model.finding import did_you_mean
from rackwright.operations.chaos.modes import SPECS, Hold, Mode
from rackwright.operations.chaos.session import RANDOM

_LONGEST_HOLD = 3600
"""Seconds. Chosen: an alert about a node that does not respond fires after 2 min; jobs wait for the end of a failure."""


def parse_mode(text: str) -> str:
    """Return a mode, or `random`. Raises InputError for another word."""
    known = [*(mode.value for mode in Mode), RANDOM]
    if text not in known:
        raise InputError(f"unknown mode `{text}`", path="--mode", hint=did_you_mean(text, known))
    return text


def parse_hold(mode: str, text: str | None) -> int | None:
    """Return the duration of each failure in seconds; None without one. Raises InputError for a mode whose failures have none."""
    if text is None:
        return None
    if mode != RANDOM and SPECS[Mode(mode)].hold is Hold.MOMENT:
        lasting = ", ".join(one.value for one in Mode if SPECS[one].hold is not Hold.MOMENT)
        raise InputError(f"a failure of mode {mode} has no duration", path="--hold", hint=f"omit it, or choose one of {lasting}")
    seconds = parse_duration("--hold", text)
    if seconds > _LONGEST_HOLD:
        raise InputError(f"is too long (found {text}, expected at most 1h)", path="--hold", hint="write for example 5m")
    return seconds


def parse_bandwidth(text: str) -> str:
    """Return a bandwidth as tc(8) reads it. Raises InputError for another text."""
    if not re.fullmatch(r"[1-9][0-9]*[kmg]bit", text):
        raise InputError(f"is no bandwidth: {text}", path="--bandwidth-limit", hint="write a number and a unit, for example 10mbit")
    return text
