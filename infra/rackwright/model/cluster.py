"""The cluster: what the user wrote, validated field by field. What fields mean together is judged in `rules`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.budget import Budget, StateKept
from rackwright.model.directory import UsersFrom
from rackwright.model.drift import DriftPolicy
from rackwright.model.fabric import Fabric
from rackwright.model.groups import Group, NodeOverride
from rackwright.model.network import Access, Network
from rackwright.model.phases import AfterPhase
from rackwright.model.policy import Change, Except
from rackwright.model.rdma import Rdma
from rackwright.model.scheduler import Scheduler, Slurm
from rackwright.model.scratch import Scratch
from rackwright.model.software import Software
from rackwright.model.storage import Storage
from rackwright.model.target import Target
from rackwright.model.tuning import Tuning
from rackwright.model.units import Label, Playbook, UserName
from rackwright.model.users import User, UserGroup


class Level(StrEnum):
    """How far a stack wants to be proven at `up`."""

    CHECKS = "checks"
    SMOKE = "smoke"
    FULL = "full"


class Refresh(StrEnum):
    """How deep `pulumi refresh` looks: resources, configuration and behaviour, or resources alone."""

    ALL = "all"
    RESOURCES = "resources"


class Rolling(Part):
    """How nodes are changed that must have no jobs meanwhile."""

    batch: Annotated[int, Change.RUN] = Field(default=1, ge=1, description="Nodes changed at a time, after the first went well.")


class Cluster(Part):
    """One GPU cluster."""

    target: Target = Field(description="Where nodes come from.")
    level: Annotated[Level, Change.RUN] = Field(default=Level.SMOKE, description="How far `up` proves the cluster.")
    network: Network = Field(description="The network all nodes share.")
    access: Access = Field(default=Access(), description="The way in.")
    groups: Annotated[dict[Label, Group], Change.MEMBERS] = Field(
        description="Groups of alike nodes. Addresses follow their order: add new groups at the end."
    )
    storage: Annotated[dict[Label, Storage], Change.DATA_LOSS] = Field(default={}, description="Shared file systems by name.")
    fabric: Annotated[Fabric | None, Change.RECABLE, Except(lab=Change.RESTART)] = Field(
        default=None, description="The network between the GPUs, where it is ours to lay out."
    )
    scheduler: Scheduler = Field(default=Slurm(kind="slurm"), description="The batch system.")
    software: Annotated[Software | None, Change.LIVE] = Field(
        default=None, description="What GPU nodes run on; where it is left out the driver has to be there already."
    )
    users: Annotated[dict[UserName, User], Change.LIVE] = Field(default={}, description="Ordinary users by name.")
    user_groups: Annotated[dict[UserName, UserGroup], Change.LIVE] = Field(default={}, description="Groups that users share, by name.")
    users_from: Annotated[UsersFrom | None, Change.LIVE] = Field(default=None, description="A directory of further users.")
    scratch: Annotated[Scratch | None, Change.LIVE] = Field(default=None, description="Fast space on the nodes' own disks.")
    rdma: Annotated[Rdma | None, Change.LIVE] = Field(default=None, description="RDMA software beyond the distribution's own.")
    tuning: Annotated[Tuning | None, Change.LIVE] = Field(default=None, description="Kernel settings, huge pages and limits.")
    nodes: dict[Label, NodeOverride] = Field(default={}, description="What single nodes have differently, by node name.")
    rolling: Rolling = Field(default=Rolling(), description="How nodes are changed that must have no jobs meanwhile.")
    refresh: Annotated[Refresh, Change.RUN] = Field(default=Refresh.ALL, description="How deep a refresh looks.")
    drift: Annotated[DriftPolicy, Change.RUN] = Field(default=DriftPolicy(), description="What may differ for a while, and why.")
    phases: Annotated[dict[AfterPhase, tuple[Playbook, ...]], Change.LIVE] = Field(
        default={}, description="Playbooks of your own, run after a phase on every converge: `after_storage: [site/archive.yml]`."
    )
    budget: Budget | None = Field(default=None, description="What it may cost, and for how long.")
    state: Annotated[StateKept, Change.RUN] = Field(
        default=StateKept.REMOTE, description="A stack that bills money keeps the engine's state elsewhere, or says `embedded-ok`."
    )
    time_zone: Annotated[str, Change.LIVE] = Field(
        default="Etc/UTC", pattern=r"^[A-Z][A-Za-z_]+(/[A-Z][A-Za-z_+-]+[0-9]*)*$", description="Time zone of all nodes."
    )
