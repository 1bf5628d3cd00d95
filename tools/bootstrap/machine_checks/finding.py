"""Result of a check."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Level(enum.IntEnum):
    """Severity of a finding; a higher number is more severe."""

    OK = 0
    INFO = 1
    UNKNOWN = 2
    WARNING = 3
    ERROR = 4


class Finding(NamedTuple):
    """The result of one check."""

    level: Level
    subject: str
    found: str
    """What is wrong (expected X, found Y); for OK, the value found."""
    reason: str = ""
    """Why it matters, in one clause."""
    commands: tuple[str, ...] = ()
    """Shell commands that fix it, with sudo if root is needed."""
    then: str = ""
    """Further steps after the commands."""


class Group(NamedTuple):
    """Findings about one subject."""

    title: str
    findings: tuple[Finding, ...]


def ok(subject: str, found: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(Level.OK, subject, found)


def unknown(subject: str, why: str) -> Finding:
    """Return a finding for a check that could not read its subject."""
    return Finding(Level.UNKNOWN, subject, f"not checked: {why}")


def at_least(findings: tuple[Finding, ...], level: Level) -> tuple[Finding, ...]:
    """Return the findings of this level and above, the most severe first."""
    return tuple(sorted((each for each in findings if each.level >= level), key=lambda each: -each.level))
