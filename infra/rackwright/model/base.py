"""Base class of the stack file's model."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ConfigModel(BaseModel):
    """A frozen part of a stack file. Unknown keys are forbidden, so that a typing error is reported and not ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
