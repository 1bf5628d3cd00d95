"""Facts of a node. Plain data; a part that could not be read is None, with the reason in `unknown`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Part(StrEnum):
    """Parts of a node, each read by its own probe."""

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
    """Processors as listed by lscpu; a virtual machine or a container may not report the layout."""

    model: str
    total: int
    sockets: int | None
    cores_per_socket: int | None
    threads_per_core: int | None


@dataclass(frozen=True)
class NumaNode:
    """A NUMA node: its CPUs in the kernel's list format (`0-31,64-95`), its memory."""

    index: int
    cpus: str
    memory_mib: int


@dataclass(frozen=True)
class Gpu:
    """A GPU as listed by its driver; None for a value that could not be read, or memory that is the CPU's."""

    index: int
    product: str | None
    memory_mib: int | None
    driver: str | None
    bus: str | None
    """PCI address as printed by nvidia-smi."""
    uuid: str | None = None
    """Identity of the GPU, `GPU-…`, wherever it is installed."""


@dataclass(frozen=True)
class GpuLinks:
    """`nvidia-smi topo -m`: the path from each GPU to every other GPU and network card."""

    paths: dict[str, dict[str, str]]
    """By GPU (`GPU0`), then by peer (`GPU1`, or the card's device `mlx5_0`): NV18, PIX, PXB, PHB, NODE, SYS."""
    numa: dict[str, str]
    """NUMA node by GPU; `N/A` if the machine does not report it."""


@dataclass(frozen=True)
class Interface:
    """A network interface of the kernel."""

    name: str
    state: str
    """Of `operstate`: up, down, unknown …"""
    rate_gbps: float | None
    link_layer: str
    """ethernet, infiniband, or the kernel's number of another link layer."""
    driver: str
    """Empty for an interface without a device."""
    numa: int | None
    mac: str | None = None
    """Permanent hardware address: 6 bytes, of IP over InfiniBand 20 bytes whose last 8 are the port's GUID. None without one."""
    bus: str = ""
    """PCI address; empty for an interface that is not on PCI."""


@dataclass(frozen=True)
class RdmaPort:
    """A port of an InfiniBand or RoCE card; None for a value that could not be read."""

    device: str
    port: int
    state: str | None
    """Logical: Active, Initializing, Down …"""
    physical: str | None
    """LinkUp, Polling, Disabled …"""
    rate_gbps: float | None
    link_layer: str | None
    numa: int | None
    firmware: str
    node_guid: str | None = None
    """Identity of the card, as `0x946dae0300f01234`; None for a virtual function without one."""
    guid: str | None = None
    """GUID of the port. With Ethernet it follows from the interface's MAC address, and changes with a bond."""
    bus: str = ""
    """PCI address; empty for a card that is not on PCI."""


@dataclass(frozen=True)
class Disk:
    """A local disk."""

    name: str
    model: str
    size_bytes: int
    rotational: bool
    transport: str
    ids: tuple[str, ...] = ()
    """Names of the disk in /dev/disk/by-id. Releases of udev name a disk differently; any common name identifies the disk."""


@dataclass(frozen=True)
class Mount:
    """A mounted file system with a size."""

    point: str
    source: str
    type: str
    size_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class Facts:
    """All facts of a node; a part that is None has its reason in `unknown`."""

    cpus: Cpus | None = None
    memory: int | None = None
    """Memory of the kernel, in MiB."""
    numa: tuple[NumaNode, ...] | None = None
    gpus: tuple[Gpu, ...] | None = None
    gpus_lost: tuple[str, ...] = ()
    """GPUs that do not respond to their driver, by PCI address."""
    gpu_links: GpuLinks | None = None
    interfaces: tuple[Interface, ...] | None = None
    rdma: tuple[RdmaPort, ...] | None = None
    disks: tuple[Disk, ...] | None = None
    mounts: tuple[Mount, ...] | None = None
    unknown: dict[Part, str] = field(default_factory=dict)
    """Reason why a part could not be read, by part."""
