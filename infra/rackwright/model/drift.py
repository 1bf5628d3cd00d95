"""What may differ from what is declared, for a reason and until a day."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.policy import Change
from rackwright.model.units import Day


class Allowed(Part):
    """A difference that `rackwright drift` is to expect."""

    subject: Annotated[str, Change.RUN] = Field(
        min_length=1, description="As `rackwright drift` prints it, like slurm.node_takes_jobs; `*` stands for anything."
    )
    node: Annotated[str, Change.RUN] = Field(default="*", min_length=1, description="A node's name, or a pattern of names.")
    reason: Annotated[str, Change.RUN] = Field(min_length=5, description="Why, for who reads it in a year.")
    until: Annotated[Day, Change.RUN] = Field(description="The last day; after it the entry itself is a difference.")


class DriftPolicy(Part):
    """How `rackwright drift` weighs what it finds."""

    allow: Annotated[tuple[Allowed, ...], Change.RUN] = Field(default=(), description="Differences that are expected for a while.")
