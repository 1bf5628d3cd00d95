"""RDMA software and settings in addition to the kernel and rdma-core."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.names import Label, RdmaDevice
from rackwright.model.update_policy import UpdatePolicy

_VERSION = r"^[0-9]+\.[0-9]+\.[0-9]+$"


class Doca(ConfigModel):
    """DOCA-Host, NVIDIA's successor of MLNX_OFED, which replaces the kernel's drivers."""

    version: Annotated[str, UpdatePolicy.LIVE] = Field(
        pattern=_VERSION, description='DOCA-Host release, in quotes, for example "3.2.3"; 3.2 is the LTS series.'
    )


class Efa(ConfigModel):
    """AWS's driver and libraries for Elastic Fabric Adapters."""

    version: Annotated[str, UpdatePolicy.LIVE] = Field(
        pattern=_VERSION, description='Version of the EFA installer, in quotes, for example "1.51.0".'
    )
    sha256: Annotated[str, UpdatePolicy.LIVE] = Field(
        pattern=r"^[0-9a-f]{64}$",
        description="Expected SHA-256 of the installer archive, published by AWS with the installation steps.",
    )


class Roce(ConfigModel):
    """Marking and flow control of RDMA over Ethernet on nodes. The switches must be configured to match."""

    devices: Annotated[tuple[RdmaDevice, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="RDMA devices, for example mlx5_0. Default: the devices of the fabric's rails."
    )
    dscp: Annotated[int, UpdatePolicy.LIVE] = Field(default=26, ge=0, le=63, description="DSCP value of RoCE packets.")
    priority: Annotated[int, UpdatePolicy.LIVE] = Field(default=3, ge=0, le=7, description="Lossless priority (PFC) of RoCE packets.")
    ecn: Annotated[bool, UpdatePolicy.LIVE] = Field(
        default=True, description="Congestion control: senders slow down when switches mark congestion (ECN)."
    )


class Rdma(ConfigModel):
    """RDMA software of nodes on a fabric. Everything is off by default: the kernel and rdma-core suffice for most clusters."""

    groups: Annotated[tuple[Label, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="Groups to configure. Default: all groups that run jobs."
    )
    doca: Annotated[Doca | None, UpdatePolicy.LIVE] = Field(default=None, description="DOCA-Host, which replaces the kernel's drivers.")
    efa: Annotated[Efa | None, UpdatePolicy.LIVE] = Field(default=None, description="AWS's EFA software.")
    roce: Annotated[Roce | None, UpdatePolicy.LIVE] = Field(default=None, description="Settings for RDMA over Ethernet.")
    virtual_functions: Annotated[int, UpdatePolicy.LIVE] = Field(
        default=0, ge=0, le=127, description="Number of SR-IOV virtual functions of each device under `roce`; 0 disables them."
    )
    ipoib: Annotated[bool, UpdatePolicy.LIVE] = Field(default=False, description="Load the kernel module for IP over InfiniBand.")
