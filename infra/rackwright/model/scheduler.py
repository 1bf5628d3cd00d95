"""What gives jobs their nodes: the batch system Slurm, or Kubernetes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.kubernetes import Kubernetes
from rackwright.model.policy import Change
from rackwright.model.units import Label, Seconds, UserName


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


class Account(Part):
    """Who shares a part of the cluster, and how much of it they may use at a time."""

    users: Annotated[tuple[UserName, ...], Change.LIVE] = Field(
        default=(), description="Who may charge it. The first account that names a user is that user's default."
    )
    parent: Annotated[Label | None, Change.LIVE] = Field(default=None, description="The account that it is a part of.")
    fairshare: Annotated[int, Change.LIVE] = Field(default=1, ge=1, description="Its share, against those of its siblings.")
    gpus: Annotated[int | None, Change.LIVE] = Field(default=None, ge=0, description="GPUs that its running jobs may hold together.")
    running_jobs: Annotated[int | None, Change.LIVE] = Field(default=None, ge=0, description="Its jobs that may run at a time.")
    qos: Annotated[tuple[Label, ...], Change.LIVE] = Field(
        default=(), description="Qualities of service it may ask for, the first by default; Slurm's `normal` when left out."
    )


class Qos(Part):
    """A quality of service: what a job may ask for, at what priority."""

    priority: Annotated[int, Change.LIVE] = Field(default=0, ge=0, description="Weighed against those of the others.")
    gpus_per_user: Annotated[int | None, Change.LIVE] = Field(default=None, ge=0, description="GPUs that a user's running jobs may hold.")
    running_jobs_per_user: Annotated[int | None, Change.LIVE] = Field(
        default=None, ge=0, description="A user's jobs that may run at a time."
    )
    max_time: Annotated[Seconds | None, Change.LIVE] = Field(default=None, description="Longest job, like 8h, in whole minutes.")
    preempts: Annotated[tuple[Label, ...], Change.RESTART] = Field(
        default=(), description="Qualities of service whose jobs go back to the queue for its own."
    )


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
    accounts: Annotated[dict[Label, Account], Change.RESTART] = Field(
        default={}, description="Accounts by name; users in none belong to `default`."
    )
    qos: Annotated[dict[Label, Qos], Change.RESTART] = Field(
        default={}, description="Qualities of service by name, beside Slurm's `normal`."
    )
    drain_timeout: Annotated[Seconds, Change.RUN] = Field(default=300, description="How long a leaving node waits for its jobs.")
    health_interval: Annotated[Seconds | None, Change.RESTART] = Field(
        default=60, description="How often a worker looks at itself, to drain itself where it is not as declared, as it does before jobs."
    )
    power_saving: Annotated[PowerSaving | None, Change.RESTART] = Field(default=None, description="Stop idle workers.")
    backup: Annotated[tuple[Label, ...], Change.RESTART] = Field(default=(), description="Controller nodes that take over, in this order.")


Scheduler = Annotated[Slurm | Kubernetes, Field(discriminator="kind")]
