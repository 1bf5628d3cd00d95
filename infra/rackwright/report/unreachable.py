"""Unreachable nodes, reported once and not once per check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from rackwright.report.result import Result
from rackwright.report.verdict import Verdict

_MOST_ALIKE: Final = 3
"""Maximum number of checks that are unknown on a node for the same reason and still listed one by one."""


def silent(checks: Iterable[Result]) -> dict[tuple[str, str], int]:
    """Return (node, reason) -> number of checks that are unknown on the node for this reason, if it exceeds the maximum."""
    reasons = Counter((check.node, check.reason) for check in checks if check.verdict is Verdict.UNKNOWN)
    return {key: count for key, count in reasons.items() if count > _MOST_ALIKE}
