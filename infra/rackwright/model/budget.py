"""What a stack may cost, and for how long."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.policy import Change
from rackwright.model.units import Seconds


class StateKept(StrEnum):
    """Where the engine's state may lie. A lost state of a stack that bills money is instances nobody knows of."""

    REMOTE = "remote"
    EMBEDDED_OK = "embedded-ok"


class Budget(Part):
    """Limits that are checked before anything is made, and kept while it runs."""

    max_usd_per_hour: Annotated[float | None, Change.RUN] = Field(default=None, gt=0, description="Over it `up` refuses.")
    max_usd_total: Annotated[float | None, Change.RUN] = Field(
        default=None, gt=0, description="Over it, for the whole `ttl`, `up` refuses; AWS Budgets watches it, too."
    )
    ttl: Annotated[Seconds | None, Change.RUN] = Field(
        default=None, description="How long the stack lives, like 8h; then its instances are terminated."
    )
    alert: Annotated[str | None, Change.RUN] = Field(
        default=None, pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$", description="Who is told by mail at 80 % of max_usd_total."
    )
