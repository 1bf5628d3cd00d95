"""The clock: a wrong one makes every TLS certificate invalid."""

from __future__ import annotations

import time
from pathlib import Path

from bootstrap.machine_checks.finding import Finding, Level, ok, unknown

_TOLERANCE = 24 * 3600.0
"""Seconds: time zones of file systems and small drift are no finding."""


def check_clock(checkout: Path, now: float | None = None) -> list[Finding]:
    """Compare the clock with the modification time of a file that cannot be from the future."""
    try:
        written = (checkout / "requirements.lock").stat().st_mtime
    except OSError as error:
        return [unknown("clock", f"requirements.lock: {error.strerror}")]
    return [judge_clock(time.time() if now is None else now, written)]


def judge_clock(now: float, written: float) -> Finding:
    """Judge seconds since the epoch: now, and when requirements.lock was written on this machine."""
    if now >= written - _TOLERANCE:
        return ok("clock", _date(now))
    return Finding(
        Level.WARNING,
        "clock",
        f"before the date of requirements.lock (expected {_date(written)} or later, found {_date(now)})",
        "downloads fail with a wrong date, since certificates are not valid yet",
        ("date", "sudo timedatectl set-ntp true"),
        "If `date` is right, the checkout was copied with a date in the future: touch requirements.lock",
    )


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
