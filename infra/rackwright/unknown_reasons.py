"""A node that does not respond, reported once and not once per check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

MOST_ALIKE: Final = 3
"""Maximum number of checks that are unknown on a node for the same reason and are still listed one by one. Chosen: four lines with the
same text say less than one line with a count; a probe that several checks share can fail alone, and its checks are then worth naming."""


def shared_reasons(unknown: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return (node, reason) -> number of unknown checks, for those that more checks share than are listed one by one."""
    return {key: count for key, count in Counter(unknown).items() if count > MOST_ALIKE}
