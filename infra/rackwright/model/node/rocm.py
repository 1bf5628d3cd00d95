"""ROCm, the software of GPUs of AMD."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from rackwright.model.base import ConfigModel
from rackwright.model.update_policy import UpdatePolicy


class Rocm(ConfigModel):
    """Release of ROCm on all nodes with GPUs of AMD, with the driver that AMD releases with it."""

    version: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}$"), UpdatePolicy.LIVE] = Field(
        description='Release of ROCm, in quotes, for example "7.0.2": a row of the product\'s catalogue.'
    )
