"""The words of a report as closed sets. `unknown` ranks above `failed`, and neither is ever green."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final


class Verdict(StrEnum):
    """What a check, a node or a run came to; in ascending rank."""

    SKIPPED = "skipped"
    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @property
    def exit_code(self) -> int:
        """0 as declared, 1 not as declared, 3 could not tell."""
        return {Verdict.FAILED: 1, Verdict.UNKNOWN: 3}.get(self, 0)


class SkipReason(StrEnum):
    """The only reasons for which a check may be skipped."""

    NOT_IN_PLAN = "not-in-plan"
    SIMULATED_HARDWARE = "simulated-hardware"
    NODE_OUT = "node-out"
    NODE_BUSY = "node-busy"
    """A job check on a node that is at work for somebody: users' jobs are not disturbed, and a node that runs them is not in doubt."""


class NotRunReason(StrEnum):
    """Why a check is no part of a run at all."""

    NOT_IN_PLAN = "not-in-plan"
    NODE_OUT = "node-out"
    LEVEL = "level"
    KIND = "kind"
    NODES = "nodes"
    EMPTY_GROUP = "empty-group"
    PHASE = "phase"
    """Of the acceptance: only other phases were asked for."""
    STOPPED = "stopped"
    """Of the acceptance: a phase before it did not pass, and what comes after would stand on nothing."""


PARTIAL: Final = frozenset({NotRunReason.NODES, NotRunReason.KIND, NotRunReason.PHASE})
"""Reasons for which somebody left checks out on purpose: such a run says nothing about the whole cluster."""


class Evidence(StrEnum):
    """Whether a result speaks of the thing itself or of its stand-in."""

    REAL = "real"
    SIMULATED = "simulated"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The highest in rank; of nothing at all nothing is known.

    >>> worst([Verdict.PASSED, Verdict.UNKNOWN, Verdict.FAILED])
    <Verdict.UNKNOWN: 'unknown'>
    >>> worst([])
    <Verdict.UNKNOWN: 'unknown'>
    """
    order = list(Verdict)
    return max(verdicts, key=order.index, default=Verdict.UNKNOWN)
