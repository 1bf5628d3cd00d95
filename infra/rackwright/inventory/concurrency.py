"""How many nodes a run asks at a time. Standard library only."""

from __future__ import annotations

import os
from typing import Final

PER_CORE: Final = 3
"""Nodes of a lab asked at a time for each core: their programs run on it as well, and of 48 asked at once a third were seconds late."""


def max_parallel(target: str, most: int, cores: int | None = None) -> int:
    """`most`, the connections worth having at a time; fewer in a lab, whose nodes all live on this machine's cores."""
    return min(most, PER_CORE * (cores or os.cpu_count() or 1)) if target == "lab" else most
