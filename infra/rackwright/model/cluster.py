"""The cluster: the stack file, validated field by field. `rules` validates combinations of fields."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.budget import Budget
from rackwright.model.chaos import ChaosPermission
from rackwright.model.drift import DriftPolicy
from rackwright.model.fabric.rdma import Rdma
from rackwright.model.fabric.switches import Fabric
from rackwright.model.groups import Group, NodeOverride
from rackwright.model.monitoring import DeclaredMonitoring
from rackwright.model.names import Label, Playbook, UserName
from rackwright.model.network import Access, Network
from rackwright.model.node.actions_runner import ActionsRunner
from rackwright.model.node.directory import DirectoryService
from rackwright.model.node.software import Software
from rackwright.model.node.tuning import Tuning
from rackwright.model.phases import AfterPhase
from rackwright.model.scheduler.slurm import Scheduler, Slurm
from rackwright.model.storage.exports import Storage
from rackwright.model.storage.scratch import Scratch
from rackwright.model.target import Target
from rackwright.model.update_policy import OnTarget, UpdatePolicy
from rackwright.model.users import User, UserGroup


class Level(StrEnum):
    """Verification level that `up` must reach."""

    CHECKS = "checks"
    SMOKE = "smoke"
    FULL = "full"


class Refresh(StrEnum):
    """Layers that `pulumi refresh` compares: resources, configuration and behaviour, or resources only."""

    ALL = "all"
    RESOURCES = "resources"


class Rolling(ConfigModel):
    """Rolling-update settings for changes that require drained nodes."""

    max_unavailable: Annotated[int, UpdatePolicy.RUN] = Field(
        default=1, ge=1, description="Batch size of a rolling update; the first node is updated alone."
    )


class Cluster(ConfigModel):
    """A GPU cluster."""

    target: Target = Field(description="Target that provides the nodes.")
    verify_level: Annotated[Level, UpdatePolicy.RUN] = Field(default=Level.SMOKE, description="Verification level that `up` must reach.")
    network: Network = Field(description="Network of all nodes.")
    access: Access = Field(default=Access(), description="Access to login nodes from outside.")
    groups: Annotated[dict[Label, Group], UpdatePolicy.MEMBERS] = Field(
        description="Groups of identical nodes, by name. Addresses follow the order of the groups: add new groups at the end."
    )
    storage: Annotated[dict[Label, Storage], UpdatePolicy.DATA_LOSS] = Field(default={}, description="Shared file systems, by name.")
    fabric: Annotated[Fabric | None, UpdatePolicy.RECABLE, OnTarget(lab=UpdatePolicy.RESTART, vm=UpdatePolicy.REPLACE)] = Field(
        default=None, description="Network between the GPUs, if rackwright plans it."
    )
    scheduler: Scheduler = Field(default=Slurm(kind="slurm"), description="Workload manager: Slurm or Kubernetes.")
    software: Annotated[Software | None, UpdatePolicy.LIVE] = Field(
        default=None, description="GPU software stack. If omitted, the driver must already be installed."
    )
    users: Annotated[dict[UserName, User], UpdatePolicy.LIVE] = Field(default={}, description="Unprivileged users, by name.")
    user_groups: Annotated[dict[UserName, UserGroup], UpdatePolicy.LIVE] = Field(default={}, description="User groups, by name.")
    directory: Annotated[DirectoryService | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Directory service with additional users."
    )
    scratch: Annotated[Scratch | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Scratch file system on the nodes' local disks."
    )
    rdma: Annotated[Rdma | None, UpdatePolicy.LIVE] = Field(default=None, description="RDMA software in addition to the distribution's.")
    tuning: Annotated[Tuning | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Kernel settings, huge pages and resource limits."
    )
    runner: Annotated[ActionsRunner | None, UpdatePolicy.LIVE] = Field(
        default=None, description="GitHub Actions runner on the nodes with the role `runner`."
    )
    nodes: dict[Label, NodeOverride] = Field(default={}, description="Per-node overrides, by node name.")
    rolling: Rolling = Field(default=Rolling(), description="Rolling-update settings for changes that require drained nodes.")
    refresh_scope: Annotated[Refresh, UpdatePolicy.RUN] = Field(default=Refresh.ALL, description="Layers that a refresh compares.")
    drift: Annotated[DriftPolicy, UpdatePolicy.RUN] = Field(
        default=DriftPolicy(), description="Drift ignore rules, notifications and metrics."
    )
    chaos: Annotated[ChaosPermission, UpdatePolicy.RUN] = Field(
        default=ChaosPermission.REFUSED,
        description="Whether `rackwright chaos` may inject failures into this stack (targets lab and vm).",
    )
    monitoring: Annotated[DeclaredMonitoring | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Metrics and alerts of the cluster. If omitted, nothing of it is installed."
    )
    hooks: Annotated[dict[AfterPhase, tuple[Playbook, ...]], UpdatePolicy.LIVE] = Field(
        default={}, description="User playbooks to run after a phase of every converge, for example `after_storage: [site/archive.yml]`."
    )
    budget: Budget | None = Field(default=None, description="Limits of the stack's cost and lifetime.")
    allow_local_state: Annotated[bool, UpdatePolicy.RUN] = Field(
        default=False,
        description="Permit a Pulumi state on this machine for a stack with billed resources, which otherwise requires a remote backend.",
    )
    time_zone: Annotated[str, UpdatePolicy.LIVE] = Field(
        default="Etc/UTC", pattern=r"^[A-Z][A-Za-z_]+(/[A-Z][A-Za-z_+-]+[0-9]*)*$", description="Time zone of all nodes."
    )
