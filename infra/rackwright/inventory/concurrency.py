"""Number of nodes that a run queries at a time. Standard library only."""

from __future__ import annotations

import os
from typing import Final

HERE: Final = frozenset({"lab", "vm"})
"""Targets whose nodes run on this machine and share its cores."""
PER_CORE: Final = 3
"""Nodes of this machine queried at a time per core: their programs share the cores, and of 48 at once a third were seconds late."""


def max_parallel(target: str, most: int, cores: int | None = None) -> int:
    """Return `most`, the useful number of parallel connections; fewer for nodes that share this machine's cores."""
    return min(most, PER_CORE * (cores or os.cpu_count() or 1)) if target in HERE else most
