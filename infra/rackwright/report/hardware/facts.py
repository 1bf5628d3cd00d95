"""What was seen on one node. Plain data; a part that could not be seen is None, and says why."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Part(StrEnum):
    """The parts of a node that are looked at, each by a question of its own."""

    CPUS = "cpus"
    MEMORY = "memory"
    NUMA = "numa"
    GPUS = "gpus"
    GPU_LINKS = "gpu_links"
    INTERFACES = "interfaces"
    RDMA = "rdma"
    DISKS = "disks"
    MOUNTS = "mounts"


@dataclass(frozen=True)
class Cpus:
    """Processors as lscpu lists them; a virtual machine or a container may not say how they are laid out."""

    model: str
    total: int
    sockets: int | None
    cores_per_socket: int | None
    threads_per_core: int | None


@dataclass(frozen=True)
class NumaNode:
    """One memory domain: its CPUs as the kernel writes a list (`0-31,64-95`), its memory."""

    index: int
    cpus: str
    memory_mib: int


@dataclass(frozen=True)
class Gpu:
    """One GPU as its driver lists it."""

    index: int
    product: str
    memory_mib: int
    driver: str
    bus: str
    """PCI address, as nvidia-smi prints it."""


@dataclass(frozen=True)
class GpuLinks:
    """`nvidia-smi topo -m`: how each GPU reaches every other GPU and network card."""

    paths: dict[str, dict[str, str]]
    """By GPU (`GPU0`), then by peer (`GPU1`, or the card's device `mlx5_0`): NV18, PIX, PXB, PHB, NODE, SYS."""
    numa: dict[str, str]
    """Memory domain by GPU; `N/A` where the machine does not say."""


@dataclass(frozen=True)
class Interface:
    """One network interface of the kernel."""

    name: str
    state: str
    """Of `operstate`: up, down, unknown …"""
    rate_gbps: float | None
    link_layer: str
    """ethernet, infiniband, or the kernel's number of another."""
    driver: str
    """Empty where no device stands behind it."""
    numa: int | None


@dataclass(frozen=True)
class RdmaPort:
    """One port of an InfiniBand or RoCE card."""

    device: str
    port: int
    state: str
    """Logical: Active, Initializing, Down …"""
    physical: str
    """LinkUp, Polling, Disabled …"""
    rate_gbps: float | None
    link_layer: str
    numa: int | None
    firmware: str


@dataclass(frozen=True)
class Disk:
    """One local disk."""

    name: str
    model: str
    size_bytes: int
    rotational: bool
    transport: str


@dataclass(frozen=True)
class Mount:
    """One mounted file system that has a size."""

    point: str
    source: str
    type: str
    size_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class Facts:
    """Everything seen on one node; what is None has its reason in `unknown`."""

    cpus: Cpus | None = None
    memory: int | None = None
    """MiB the kernel has."""
    numa: tuple[NumaNode, ...] | None = None
    gpus: tuple[Gpu, ...] | None = None
    gpu_links: GpuLinks | None = None
    interfaces: tuple[Interface, ...] | None = None
    rdma: tuple[RdmaPort, ...] | None = None
    disks: tuple[Disk, ...] | None = None
    mounts: tuple[Mount, ...] | None = None
    unknown: dict[Part, str] = field(default_factory=dict)
    """Why a part could not be seen."""
