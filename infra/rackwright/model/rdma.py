"""Software for network cards that write into the memory of other nodes, beyond what the kernel and rdma-core bring."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from rackwright.model.base import Part
from rackwright.model.policy import Change
from rackwright.model.units import Label

_VERSION = r"^[0-9]+\.[0-9]+\.[0-9]+$"


class Doca(Part):
    """DOCA-Host, NVIDIA's follower of MLNX_OFED, in the place of the kernel's own drivers."""

    version: Annotated[str, Change.LIVE] = Field(pattern=_VERSION, description='A release, in quotes, like "3.2.3"; 3.2 is the LTS line.')


class Efa(Part):
    """AWS's own driver and libraries for Elastic Fabric Adapters."""

    version: Annotated[str, Change.LIVE] = Field(pattern=_VERSION, description='The installer\'s version, in quotes, like "1.51.0".')
    sha256: Annotated[str, Change.LIVE] = Field(
        pattern=r"^[0-9a-f]{64}$",
        description="SHA-256 of its archive, which AWS publishes with the installation steps; another one is refused.",
    )


class Roce(Part):
    """How a node marks and stops RDMA over Ethernet. The switches have to be told the same."""

    devices: Annotated[tuple[Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,14}$")], ...], Change.LIVE] = Field(
        default=(), description="RDMA devices, like mlx5_0; those of the fabric's rails when left out."
    )
    dscp: Annotated[int, Change.LIVE] = Field(default=26, ge=0, le=63, description="What packets are marked with.")
    priority: Annotated[int, Change.LIVE] = Field(default=3, ge=0, le=7, description="The class that those are in, which is never dropped.")
    ecn: Annotated[bool, Change.LIVE] = Field(default=True, description="Whether senders slow down where switches mark congestion.")


class Rdma(Part):
    """What nodes on a fabric are given. All of it is off unless asked for: the kernel and rdma-core serve most."""

    groups: Annotated[tuple[Label, ...], Change.LIVE] = Field(
        default=(), description="Groups that have it; all that run jobs when left out."
    )
    doca: Annotated[Doca | None, Change.LIVE] = Field(default=None, description="DOCA-Host in the place of the kernel's own drivers.")
    efa: Annotated[Efa | None, Change.LIVE] = Field(default=None, description="AWS's EFA software.")
    roce: Annotated[Roce | None, Change.LIVE] = Field(default=None, description="Settings of RDMA over Ethernet.")
    virtual_functions: Annotated[int, Change.LIVE] = Field(
        default=0, ge=0, le=127, description="Virtual functions (SR-IOV) of each device under `roce`; 0 switches them off."
    )
    ipoib: Annotated[bool, Change.LIVE] = Field(default=False, description="Whether the module for IP over InfiniBand is loaded.")
