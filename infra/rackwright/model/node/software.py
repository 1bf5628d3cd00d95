"""The GPU software stack: a profile of compatible versions, and deviations from it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field, StringConstraints

from rackwright.model.base import ConfigModel
from rackwright.model.names import Label
from rackwright.model.node.containers import ContainerRuntime
from rackwright.model.node.pytorch import Pytorch
from rackwright.model.node.rocm import Rocm
from rackwright.model.node.tools import Tool
from rackwright.model.update_policy import UpdatePolicy


class GpuModules(StrEnum):
    """Variants of the driver's kernel modules."""

    OPEN = "open"
    PROPRIETARY = "proprietary"


class GpuDirect(StrEnum):
    """Method for network cards to access GPU memory without a copy through host memory."""

    DMA_BUF = "dma-buf"
    PEERMEM = "nvidia-peermem"
    OFF = "off"


Version = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,9}(\.[0-9]{1,9}){0,5}$")]
ProfileName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][-.a-z0-9]*$", max_length=63)]
NcclVariable = Annotated[str, StringConstraints(pattern=r"^NCCL_[A-Z0-9_]+$")]
NcclValue = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if isinstance(value, int) and not isinstance(value, bool) else value),
    StringConstraints(pattern=r"^[!-~]([ -~]*[!-~])?$"),
]
"""One line of printable characters; a bare number in YAML is taken as written."""


class Nccl(ConfigModel):
    """NCCL settings of every node."""

    environment: Annotated[dict[NcclVariable, NcclValue], UpdatePolicy.LIVE] = Field(
        default={},
        description="Settings in /etc/nccl.conf, for example NCCL_SOCKET_IFNAME: eth0. NCCL detects almost everything automatically.",
    )


class Software(ConfigModel):
    """GPU software stack: driver, CUDA, NCCL and related components."""

    profile: Annotated[ProfileName, UpdatePolicy.LIVE] = Field(
        default="2026-lts", description="Set of compatible versions: a row of the compatibility catalogue."
    )
    versions: Annotated[dict[Label, Version], UpdatePolicy.LIVE] = Field(
        default={}, description='Versions that override the profile, by component, in quotes, for example cuda: "12.9".'
    )
    kernel_modules: Annotated[GpuModules | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Variant of the driver's kernel modules. Default: `open` if the GPU supports it."
    )
    gpudirect: Annotated[GpuDirect | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Method for network cards to access GPU memory. Default: `dma-buf` with the driver's open modules."
    )
    containers: Annotated[tuple[ContainerRuntime, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="Container tools for users, on login nodes and nodes that run jobs. enroot includes pyxis."
    )
    tools: Annotated[tuple[Tool, ...], UpdatePolicy.LIVE] = Field(
        default=(),
        description="Diagnostic tools and benchmarks, on login nodes and nodes that run jobs. `rackwright acceptance` runs fio and hpcc.",
    )
    pytorch: Annotated[Pytorch | None, UpdatePolicy.LIVE] = Field(
        default=None, description="PyTorch, installed once for all nodes on a shared file system."
    )
    nccl: Nccl = Field(default=Nccl(), description="NCCL settings.")
    rocm: Annotated[Rocm | None, UpdatePolicy.LIVE] = Field(
        default=None, description="ROCm and the driver on nodes with GPUs of AMD. Default: none; the machines have a driver of their own."
    )
