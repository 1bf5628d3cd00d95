"""The batch system."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.policy import Change
from rackwright.model.units import Label, Seconds


class Gres(StrEnum):
    """Generic resources a partition can demand of its nodes."""

    GPU = "gpu"


class Partition(Part):
    """A queue over some of the workers."""

    groups: Annotated[tuple[Label, ...], Change.RESTART] = Field(default=(), description="Groups in it.")
    nodes: Annotated[tuple[Label, ...], Change.RESTART] = Field(default=(), description="Single nodes in it, besides the groups.")
    gres: Annotated[tuple[Gres, ...], Change.RUN] = Field(default=(), description="What every node of it must offer.")
    default: Annotated[bool, Change.RESTART] = Field(
        default=False, description="Where jobs go that name none; the first partition when none says so."
    )
    max_time: Annotated[Seconds | None, Change.RESTART] = Field(default=None, description="Longest job, like 8h.")


class PowerSaving(Part):
    """Stops idle workers and starts them when jobs need them."""

    idle: Annotated[Seconds, Change.RESTART] = Field(description="Idle time after which a worker is stopped, like 10m.")
    suspend_timeout: Annotated[Seconds, Change.RESTART] = Field(default=30, description="Longest time a stop takes.")
    resume_timeout: Annotated[Seconds, Change.RESTART] = Field(default=60, description="Longest time from start to ready.")


class Slurm(Part):
    """Slurm with munge, accounting and configless workers."""

    kind: Annotated[Literal["slurm"], Change.FORBIDDEN] = Field(description="The batch system.")
    partitions: Annotated[dict[Label, Partition], Change.RESTART] = Field(
        default={}, description="Queues; one over all workers when left out."
    )
    drain_timeout: Annotated[Seconds, Change.RUN] = Field(default=300, description="How long a leaving node waits for its jobs.")
    health_interval: Annotated[Seconds | None, Change.RESTART] = Field(
        default=60, description="How often a worker looks at itself, to drain itself where it is not as declared, as it does before jobs."
    )
    power_saving: Annotated[PowerSaving | None, Change.RESTART] = Field(default=None, description="Stop idle workers.")
    backup: Annotated[tuple[Label, ...], Change.RESTART] = Field(default=(), description="Controller nodes that take over, in this order.")


Scheduler = Slurm
