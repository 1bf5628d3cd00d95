"""Unreachable nodes, reported once and not once per check."""

from __future__ import annotations

from collections.abc import Iterable

from rackwright.report.result import Result
from rackwright.report.verdict import Verdict
from rackwright.unknown_reasons import shared_reasons


def unreachable_nodes(checks: Iterable[Result]) -> dict[tuple[str, str], int]:
    """Return (node, reason) -> number of checks that are unknown on the node for this reason, if the number exceeds the maximum."""
    return shared_reasons((check.node, check.reason) for check in checks if check.verdict is Verdict.UNKNOWN)
