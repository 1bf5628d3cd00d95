"""RDMA software and settings in addition to the kernel and rdma-core."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.units import Label, RdmaDevice
from rackwright.model.update_policy import Change

_VERSION = r"^[0-9]+\.[0-9]+\.[0-9]+$"


class Doca(Part):
    """DOCA-Host, NVIDIA's successor of MLNX_OFED, which replaces the kernel's drivers."""

    version: Annotated[str, Change.LIVE] = Field(
        pattern=_VERSION, description='DOCA-Host release, in quotes, for example "3.2.3"; 3.2 is the LTS series.'
    )


class Efa(Part):
    """AWS's driver and libraries for Elastic Fabric Adapters."""

    version: Annotated[str, Change.LIVE] = Field(
        pattern=_VERSION, description='Version of the EFA installer, in quotes, for example "1.51.0".'
    )
    sha256: Annotated[str, Change.LIVE] = Field(
        pattern=r"^[0-9a-f]{64}$",
        description="Expected SHA-256 of the installer archive, published by AWS with the installation steps.",
    )


class Roce(Part):
    """Marking and flow control of RDMA over Ethernet on nodes. The switches must be configured to match."""

    devices: Annotated[tuple[RdmaDevice, ...], Change.LIVE] = Field(
        default=(), description="RDMA devices, for example mlx5_0. Default: the devices of the fabric's rails."
    )
    dscp: Annotated[int, Change.LIVE] = Field(default=26, ge=0, le=63, description="DSCP value of RoCE packets.")
    priority: Annotated[int, Change.LIVE] = Field(default=3, ge=0, le=7, description="Lossless priority (PFC) of RoCE packets.")
    ecn: Annotated[bool, Change.LIVE] = Field(
        default=True, description="Congestion control: senders slow down when switches mark congestion (ECN)."
    )


class Rdma(Part):
    """RDMA software of nodes on a fabric. Everything is off by default: the kernel and rdma-core suffice for most clusters."""

    groups: Annotated[tuple[Label, ...], Change.LIVE] = Field(
        default=(), description="Groups to configure. Default: all groups that run jobs."
    )
    doca: Annotated[Doca | None, Change.LIVE] = Field(default=None, description="DOCA-Host, which replaces the kernel's drivers.")
    efa: Annotated[Efa | None, Change.LIVE] = Field(default=None, description="AWS's EFA software.")
    roce: Annotated[Roce | None, Change.LIVE] = Field(default=None, description="Settings for RDMA over Ethernet.")
    virtual_functions: Annotated[int, Change.LIVE] = Field(
        default=0, ge=0, le=127, description="Number of SR-IOV virtual functions of each device under `roce`; 0 disables them."
    )
    ipoib: Annotated[bool, Change.LIVE] = Field(default=False, description="Load the kernel module for IP over InfiniBand.")
