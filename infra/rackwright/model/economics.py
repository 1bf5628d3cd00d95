"""What machines of one's own cost. Every figure is the user's: no catalogue knows a second-hand price or a tariff."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.policy import Change
from rackwright.model.units import Label


class MachineCost(Part):
    """One machine of a group."""

    price_usd: Annotated[float, Change.RUN] = Field(ge=0, description="What it was bought for, with its share of switches and cables.")
    watts: Annotated[float, Change.RUN] = Field(ge=0, description="What it draws at the wall under load.")


class Economics(Part):
    """What `rackwright cost` reckons with."""

    machines: Annotated[dict[Label, MachineCost], Change.RUN] = Field(description="One machine of each group.")
    tariff_usd_per_kwh: Annotated[float, Change.RUN] = Field(ge=0, description="What a kilowatt hour costs.")
    years: Annotated[float, Change.RUN] = Field(gt=0, le=20, description="Over how many years the price is written off.")
    utilisation: Annotated[float, Change.RUN] = Field(
        default=1.0, gt=0, le=1, description="Share of its GPU hours that jobs use; 1, all of them, when left out."
    )
    pue: Annotated[float, Change.RUN] = Field(
        default=1.0, ge=1, description="Power of the room for each watt of the machines; 1, no cooling at all, when left out."
    )
