"""Cost of owned machines. The user states every figure: no catalogue lists second-hand prices or tariffs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.names import Label
from rackwright.model.update_policy import UpdatePolicy


class MachineCost(ConfigModel):
    """Cost of one machine of a group."""

    price_usd: Annotated[float, UpdatePolicy.RUN] = Field(
        ge=0, description="Purchase price in USD, including the machine's share of switches and cables."
    )
    watts: Annotated[float, UpdatePolicy.RUN] = Field(ge=0, description="Power draw under load in watts, measured at the wall.")


class OwnershipCostInputs(ConfigModel):
    """Inputs of `rackwright cost` for owned machines."""

    machines: Annotated[dict[Label, MachineCost], UpdatePolicy.RUN] = Field(description="Cost of one machine, by group name.")
    electricity_usd_per_kwh: Annotated[float, UpdatePolicy.RUN] = Field(ge=0, description="Electricity price in USD per kilowatt-hour.")
    years: Annotated[float, UpdatePolicy.RUN] = Field(gt=0, le=20, description="Depreciation period in years.")
    utilisation: Annotated[float, UpdatePolicy.RUN] = Field(
        default=1.0, gt=0, le=1, description="Share of the GPU hours that jobs use. Default: 1, all of them."
    )
    pue: Annotated[float, UpdatePolicy.RUN] = Field(
        default=1.0, ge=1, description="Power usage effectiveness: watts of the room per watt of the machines. Default: 1, no cooling."
    )
