"""Limits of a stack's cost and lifetime."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.units import Seconds
from rackwright.model.update_policy import UpdatePolicy


class Budget(ConfigModel):
    """Limits that are checked before resources are created and enforced while the stack runs."""

    max_usd_per_hour: Annotated[float | None, UpdatePolicy.RUN] = Field(
        default=None, gt=0, description="Limit in USD per hour; `up` refuses to exceed it."
    )
    max_usd_total: Annotated[float | None, UpdatePolicy.RUN] = Field(
        default=None, gt=0, description="Limit in USD for the whole `ttl`; `up` refuses to exceed it, and AWS Budgets monitors it."
    )
    ttl: Annotated[Seconds | None, UpdatePolicy.RUN] = Field(
        default=None, description="Lifetime of the stack, for example 8h; its instances are terminated afterwards."
    )
    alert: Annotated[str | None, UpdatePolicy.RUN] = Field(
        default=None, pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$", description="Mail address that is notified at 80 % of `max_usd_total`."
    )
