"""The values of a report as enumerations. `unknown` ranks above `failed`, and neither ever counts as a pass."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final


class Verdict(StrEnum):
    """Verdict of a check, a node or a run, in ascending rank."""

    SKIPPED = "skipped"
    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @property
    def exit_code(self) -> int:
        """Return 0 as declared, 1 not as declared, 3 undetermined."""
        return {Verdict.FAILED: 1, Verdict.UNKNOWN: 3}.get(self, 0)


class SkipReason(StrEnum):
    """Valid reasons for skipping a check."""

    NOT_IN_PLAN = "not-in-plan"
    SIMULATED_HARDWARE = "simulated-hardware"
    NODE_OUT = "node-out"
    NODE_BUSY = "node-busy"
    """A job check on a node that runs users' jobs: the jobs must not be disturbed, and they show that the node works."""
    DAEMON_DOWN = "daemon-down"
    """A daemon does not run. Another result of the run reports it, and the check cannot run without the daemon."""
    NODE_SLOW = "node-slow"
    """The node had no time left for the check. Another result of the run reports the node as slow."""


class NotRunReason(StrEnum):
    """Reasons why a check is not part of a run."""

    NOT_IN_PLAN = "not-in-plan"
    NODE_OUT = "node-out"
    LEVEL = "level"
    KIND = "kind"
    NODES = "nodes"
    EMPTY_GROUP = "empty-group"
    PHASE = "phase"
    """Acceptance: only other phases were requested."""
    STOPPED = "stopped"
    """Acceptance: an earlier phase did not pass, and later phases depend on it."""


PARTIAL: Final = frozenset({NotRunReason.NODES, NotRunReason.KIND, NotRunReason.PHASE})
"""Reasons of intentionally excluded checks: such a run has no verdict on the cluster."""


class Evidence(StrEnum):
    """Whether a result was obtained from real hardware or from a simulation."""

    REAL = "real"
    SIMULATED = "simulated"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict with the highest rank, or UNKNOWN without any verdict.

    >>> worst([Verdict.PASSED, Verdict.UNKNOWN, Verdict.FAILED])
    <Verdict.UNKNOWN: 'unknown'>
    >>> worst([])
    <Verdict.UNKNOWN: 'unknown'>
    """
    order = list(Verdict)
    return max(verdicts, key=order.index, default=Verdict.UNKNOWN)
