"""The base of everything a user may write."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A frozen piece of the description. Unknown keys are forbidden: a typing error must be reported, not ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
