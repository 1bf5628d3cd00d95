"""Parts of a network, told apart by who may come in."""

from __future__ import annotations

from enum import StrEnum


class Tier(StrEnum):
    """Where a node's address lies."""

    PUBLIC = "public"
    """Login nodes, where the target divides its network."""
    SERVICE = "service"
    """What the provider gives addresses to itself."""
    PRIVATE = "private"
    """All others."""
