"""The batch system."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.units import Label, Seconds


class Gres(StrEnum):
    """Generic resources a partition can demand of its nodes."""

    GPU = "gpu"


class Partition(Part):
    """A queue over some of the workers."""

    groups: tuple[Label, ...] = Field(default=(), description="Groups in it.")
    nodes: tuple[Label, ...] = Field(default=(), description="Single nodes in it, besides the groups.")
    gres: tuple[Gres, ...] = Field(default=(), description="What every node of it must offer.")
    default: bool = Field(default=False, description="Where jobs go that name none; the first partition when none says so.")
    max_time: Seconds | None = Field(default=None, description="Longest job, like 8h.")


class PowerSaving(Part):
    """Stops idle workers and starts them when jobs need them."""

    idle: Seconds = Field(description="Idle time after which a worker is stopped, like 10m.")
    suspend_timeout: Seconds = Field(default=30, description="Longest time a stop takes.")
    resume_timeout: Seconds = Field(default=60, description="Longest time from start to ready.")


class Slurm(Part):
    """Slurm with munge, accounting and configless workers."""

    kind: Literal["slurm"] = Field(description="The batch system.")
    partitions: dict[Label, Partition] = Field(default={}, description="Queues; one over all workers when left out.")
    drain_timeout: Seconds = Field(default=300, description="How long a leaving node waits for its jobs.")
    power_saving: PowerSaving | None = Field(default=None, description="Stop idle workers.")
    backup: tuple[Label, ...] = Field(default=(), description="Controller nodes that take over, in this order.")


Scheduler = Slurm
