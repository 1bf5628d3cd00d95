"""Whether failures may be injected into a stack."""

from __future__ import annotations

from enum import StrEnum


class ChaosPermission(StrEnum):
    """Whether `rackwright chaos` may inject failures: never, unless the stack file says so."""

    REFUSED = "refused"
    ALLOWED = "allowed"
