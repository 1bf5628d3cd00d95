"""Whether failures may be injected into a stack."""

from __future__ import annotations

from enum import StrEnum


class ChaosPermission(StrEnum):
    """Whether `rackwright chaos` may inject failures into a stack; by default it may not."""

    REFUSED = "refused"
    ALLOWED = "allowed"
