"""The plan's plain data: every node and all data of the phases and checks, with nothing left to derive."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field

from rackwright.derive.cost import Cost
from rackwright.model.base import ConfigModel
from rackwright.model.budget import Budget
from rackwright.model.cluster import Level, Refresh
from rackwright.model.fabric.rdma import Rdma
from rackwright.model.groups import Role, State
from rackwright.model.node.containers import ContainerRuntime
from rackwright.model.node.directory import DirectoryService
from rackwright.model.node.pytorch import PytorchSource
from rackwright.model.node.software import GpuModules
from rackwright.model.node.tools import Tool
from rackwright.model.node.tuning import Tuning
from rackwright.model.storage.fsx import FsxLustre
from rackwright.model.storage.scratch import Scratch
from rackwright.model.target import Target
from rackwright.plan.fabric.schema import FabricPlan
from rackwright.plan.kubernetes.schema import Kubernetes
from rackwright.plan.monitoring.schema import MonitoringPlan
from rackwright.plan.slurm.schema import Slurm
from rackwright.plan.software import SoftwareStack


class MigInstance(ConfigModel):
    """An instance on a GPU that MIG divides."""

    profile: str
    start: int
    """Memory slice at which it begins."""


class OtherGpu(ConfigModel):
    """The GPUs of another model in a node."""

    model: str
    product: str
    memory_mib: int | None
    """None for GPUs that share the memory of their CPU."""
    devices: tuple[int, ...]
    """Numbers of their device files."""


class NodeGpu(ConfigModel):
    """The GPUs of one node. Product, memory and architecture are those of `model`."""

    vendor: Literal["nvidia", "amd"] = "nvidia"
    model: str
    count: int
    """GPUs of all models."""
    product: str
    memory_mib: int | None
    """None for GPUs that share the memory of their CPU."""
    driver: str | None
    """Version of the driver; None for GPUs of AMD, whose driver is that of the kernel or of the role rocm."""
    architecture: str
    modules: GpuModules | None
    """Flavour of the driver's kernel modules; None for GPUs of AMD."""
    nvswitch: bool
    """Whether they are connected by NVSwitch and need Fabric Manager."""
    simulated: bool
    mig: tuple[tuple[MigInstance, ...], ...] = ()
    """Instances of each GPU by the number of its device file, none of a whole GPU; empty where MIG is not managed."""
    others: tuple[OtherGpu, ...] = Field(default=(), exclude_if=lambda others: not others)
    """GPUs of other models, which `count` includes. Left out of documents where there are none."""

    @property
    def models(self) -> tuple[str, ...]:
        """Return the model of each GPU, in the order of the device files."""
        by_device = {device: one.model for one in self.others for device in one.devices}
        return tuple(by_device.get(device, self.model) for device in range(self.count))


class PlanNode(ConfigModel):
    """One node: the record that roles, tests and the report read unchanged."""

    name: str
    group: str
    index: int
    roles: tuple[Role, ...]
    fqdn: str
    address: str
    mac: str | None
    """None for a machine with a MAC of its own."""
    user: str
    """Login user: root, or a user with passwordless sudo."""
    ssh_port: int
    """Port of its SSH server, as seen from the nodes."""
    cpus: int
    threads_per_core: int | None = None
    """Online threads of each core; None where the stack file does not declare it."""
    sockets: int | None = None
    """None where the stack file does not declare it."""
    memory_mib: int
    gpus: NodeGpu | None
    neuron_devices: int = 0
    """Inferentia or Trainium devices."""
    os: str
    architecture: str = "x86_64"
    """Processor architecture: x86_64 or arm64."""
    rack: str | None
    rails: tuple[str, ...] = ()
    """Device names of its HCAs on the fabric, by rail; a subnet manager apart from the fabric's nodes has one only."""
    features: tuple[str, ...] = ()
    """Its features of the node stack; the node is in the group `with_<part>` of each."""
    state: State
    reason: str | None
    until: str | None

    @property
    def is_in(self) -> bool:
        """Return whether the node takes part in phases and checks."""
        return self.state is State.IN


class Network(ConfigModel):
    """The network of all nodes."""

    cidr: str
    gateway: str | None
    """None for a network that rackwright does not create."""


class Access(ConfigModel):
    """SSH access: the nodes through which all others are reached (none: each directly), and their published ports."""

    jump_hosts: tuple[str, ...]
    port: int
    listen: str
    allow: tuple[str, ...]
    ports: dict[str, int]
    """Published port of every declared login node; a node's port is constant when others are added, removed or out."""


class User(ConfigModel):
    """User who runs jobs."""

    name: str
    uid: int
    gid: int
    groups: tuple[str, ...]
    shell: str
    admin: bool
    ssh_keys: tuple[str, ...]


class UserGroup(ConfigModel):
    """A group of users."""

    name: str
    gid: int


class ExistingMount(ConfigModel):
    """Mount of a file system whose servers rackwright does not manage."""

    source: str
    read_only: bool
    user_folder: str
    """Folder below the mount point to which the first user may write; empty for the default."""
    version: str | None = None
    """Version of NFS."""
    sec: str | None = None
    """Security flavour of NFS."""
    flock: bool | None = None
    """Whether locks of Lustre hold between nodes."""


class Storage(ConfigModel):
    """A shared file system with its servers and clients."""

    name: str
    kind: str
    mount: str
    servers: tuple[str, ...]
    clients: tuple[str, ...]
    folder: str | None
    """Folder that its only server exports; None where clients mount the whole file system by its servers' names."""
    size_mib: int | None
    """Space that each server reserves; the whole capacity where no node serves it; None for an existing file system."""
    mode: str | None
    """Mode of the root folder; None for an existing file system, whose root folder stays as it is."""
    simulated: bool
    rdma: bool = False
    """Whether clients use RDMA."""
    nconnect: int | None = None
    """TCP connections of each NFS client; None for RDMA and other kinds."""
    fsx: FsxLustre | None = None
    """Request to AWS, where FSx serves the file system."""
    existing: ExistingMount | None = None
    """How clients mount an existing file system; None for one that rackwright creates."""


Scheduler = Annotated[Slurm | Kubernetes, Field(discriminator="kind")]


class Volume(ConfigModel):
    """Data that outlives its node: a node recreated under the same name mounts the same volume."""

    name: str
    node: str
    mount: str
    size_mib: int | None
    purpose: Literal["storage", "metadata", "accounting", "scheduler", "etcd", "containers"]


class Rolling(ConfigModel):
    """Batch size of changes that require nodes without jobs."""

    batch: int


class PlannedPytorch(ConfigModel):
    """PyTorch and its path."""

    source: PytorchSource = PytorchSource.WHEELS
    version: str | None
    folder: str | None
    """Virtual environment; None for packages of the distribution."""
    index: str | None
    wheelhouse: str | None
    packages: tuple[str, ...]


class PlannedRunner(ConfigModel):
    """GitHub Actions runner of the nodes in the group `role_runner`."""

    url: str
    labels: tuple[str, ...]
    group: str | None
    ephemeral: bool
    auto_update: bool
    version: str
    sha256: dict[str, str]
    """Digest of the archive by processor architecture."""
    work_folder: str
    """Folder for the files of jobs: on the scratch file system, if the nodes have one."""
    memory_percent: int
    cpu_percent: int


class NodeStack(ConfigModel):
    """Additional software and settings of nodes, each null or empty unless declared."""

    directory: DirectoryService | None = None
    tuning: Tuning | None = None
    scratch: Scratch | None = None
    rdma: Rdma | None = None
    containers: tuple[ContainerRuntime, ...] = ()
    tools: tuple[Tool, ...] = ()
    pytorch: PlannedPytorch | None = None
    runner: PlannedRunner | None = Field(default=None, exclude_if=lambda runner: runner is None)
    """Left out where it is not declared: plans that are up were recorded without it."""


class Plan(ConfigModel):
    """The cluster, expanded. Equal inputs give equal plans, byte for byte."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    contract: Literal["rackwright.plan/2"] = Field(default="rackwright.plan/2", alias="schema")
    stack: str
    target: Target
    simulated: tuple[str, ...]
    level: Level
    refresh: Refresh
    rolling: Rolling
    domain: str
    time_zone: str
    network: Network
    access: Access
    nodes: tuple[PlanNode, ...]
    groups: dict[str, tuple[str, ...]]
    """Inventory groups and the names of their nodes."""
    users: tuple[User, ...]
    user_groups: tuple[UserGroup, ...] = ()
    storage: tuple[Storage, ...]
    scheduler: Scheduler
    volumes: tuple[Volume, ...]
    node_stack: NodeStack = NodeStack()
    software: SoftwareStack | None = None
    fabric: FabricPlan | None = None
    monitoring: MonitoringPlan | None = Field(default=None, exclude_if=lambda plan: plan is None)
    """Left out where it is not declared: plans that are up were recorded without it."""
    cost: Cost = Cost()
    """Excluded from the provider's input: a new price is no reason to converge again."""
    budget: Budget | None = None
    allow_local_state: bool = False

    @cached_property
    def by_name(self) -> dict[str, PlanNode]:
        """Return the nodes by name."""
        return {node.name: node for node in self.nodes}

    def node(self, name: str) -> PlanNode:
        """Return a node by name. Raise KeyError if the plan has none."""
        return self.by_name[name]

    def is_in(self, name: str) -> bool:
        """Return whether the plan has the node and it takes part."""
        return name in self.by_name and self.by_name[name].is_in

    def to_data(self) -> dict[str, Any]:
        """Return the plan as JSON-ready data."""
        return self.model_dump(mode="json")

    @classmethod
    def from_data(cls, data: object) -> Self:
        """Return the plan of `to_data`'s result."""
        return cls.model_validate(data)
