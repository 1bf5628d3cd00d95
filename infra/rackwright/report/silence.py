"""Nodes that say nothing: told once, not once for each check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from rackwright.report.result import Result
from rackwright.report.verdict import Verdict

_MOST_ALIKE: Final = 3
"""Checks that are unknown on one node for one and the same reason and are still told one by one."""


def silent(checks: Iterable[Result]) -> dict[tuple[str, str], int]:
    """(node, reason) -> how many checks are unknown there for it, where they are many."""
    reasons = Counter((check.node, check.reason) for check in checks if check.verdict is Verdict.UNKNOWN)
    return {key: count for key, count in reasons.items() if count > _MOST_ALIKE}
