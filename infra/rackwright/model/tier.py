"""Parts of a network, by access from outside."""

from __future__ import annotations

from enum import StrEnum


class Tier(StrEnum):
    """Part of the network that a node's address belongs to."""

    PUBLIC = "public"
    """Login nodes, if the target divides its network."""
    SERVICE = "service"
    """Resources that the cloud provider assigns addresses to."""
    PRIVATE = "private"
    """All other nodes."""
