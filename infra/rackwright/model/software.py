"""The node's software stack: a profile of versions that fit each other, and what differs from it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field, StringConstraints

from rackwright.model.base import Part
from rackwright.model.containers import ContainerRuntime
from rackwright.model.policy import Change
from rackwright.model.pytorch import Pytorch
from rackwright.model.tools import Tool
from rackwright.model.units import Label


class GpuModules(StrEnum):
    """The two flavours of the driver's kernel modules."""

    OPEN = "open"
    PROPRIETARY = "proprietary"


class GpuDirect(StrEnum):
    """How network cards reach GPU memory without a copy through the host's."""

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


class Nccl(Part):
    """What NCCL is told on every node."""

    environment: Annotated[dict[NcclVariable, NcclValue], Change.LIVE] = Field(
        default={}, description="Lines of /etc/nccl.conf, like NCCL_SOCKET_IFNAME: eth0. NCCL finds out almost everything by itself."
    )


class Software(Part):
    """What GPU nodes run on: driver, CUDA, NCCL and what belongs to them."""

    profile: Annotated[ProfileName, Change.LIVE] = Field(
        default="2026-lts", description="A row of the compatibility catalogue: versions that fit each other."
    )
    pins: Annotated[dict[Label, Version], Change.LIVE] = Field(
        default={}, description='Versions that differ from the profile\'s, by component, in quotes, like cuda: "12.9".'
    )
    modules: Annotated[GpuModules | None, Change.LIVE] = Field(
        default=None, description="Flavour of the driver's kernel modules; open where the GPU can when left out."
    )
    gpudirect: Annotated[GpuDirect | None, Change.LIVE] = Field(
        default=None, description="How network cards reach GPU memory; dma-buf where the driver's modules are open when left out."
    )
    containers: Annotated[tuple[ContainerRuntime, ...], Change.LIVE] = Field(
        default=(), description="What users run containers with, on login nodes and those that run jobs. enroot comes with pyxis."
    )
    tools: Annotated[tuple[Tool, ...], Change.LIVE] = Field(default=(), description="Tools for looking at nodes, in the same places.")
    pytorch: Annotated[Pytorch | None, Change.LIVE] = Field(default=None, description="PyTorch, once for all, on a shared file system.")
    nccl: Nccl = Field(default=Nccl(), description="What NCCL is told.")
