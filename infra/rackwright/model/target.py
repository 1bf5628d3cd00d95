"""Where nodes come from. Each target is one class here, with what the plan must know of it as attributes, and one folder in `targets/`."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rackwright.model.aws import AwsTarget
from rackwright.model.base import Part
from rackwright.model.hosts import HostsTarget
from rackwright.model.policy import Change
from rackwright.model.tier import Tier


class LabOs(StrEnum):
    """Operating systems the lab has an image recipe for."""

    DEBIAN_12 = "debian-12"
    DEBIAN_13 = "debian-13"


class ImageSource(StrEnum):
    """Where the base image comes from: `auto` pulls where a registry answers and bootstraps otherwise."""

    AUTO = "auto"
    PULL = "pull"
    BOOTSTRAP = "bootstrap"


class LabTarget(Part):
    """Containers on this machine that run systemd: the real thing, smaller."""

    simulated: ClassVar[tuple[str, ...]] = ("gpu", "fabric")
    """Subsystems whose evidence is simulated here."""
    owns_network: ClassVar[bool] = True
    """Whether the network is ours: then only login nodes are published and all others are reached through them."""
    mtu: ClassVar[int] = 1500
    """Largest packet, in bytes, of the network between nodes."""
    publishes: ClassVar[bool] = True
    """Whether login nodes are published on addresses of this machine."""
    gives_cgroups: ClassVar[bool] = False
    """Whether the nodes' kernels give Slurm cgroups of its own."""
    sets_hostname: ClassVar[bool] = False
    """Whether nodes are given their names by a role; here they are born with them."""
    owns_kernel: ClassVar[bool] = False
    """Whether nodes have kernels of their own: then their clocks and kernel settings are ours to keep."""
    declared_hardware: ClassVar[bool] = True
    """Whether CPUs and memory are what the stack declares rather than what the node shows."""
    nests_containers: ClassVar[bool] = True
    """Whether nodes are containers themselves: what they run as containers then needs volumes of its own."""
    boots_within: ClassVar[float] = 45.0
    """Seconds until a new node answers over SSH."""
    metadata_service: ClassVar[bool] = False
    """Whether nodes are told at 169.254.169.254 who they are and what they may do: that is for root alone."""
    default_cpus: ClassVar[int] = 2
    default_memory: ClassVar[int] = 2**30
    bills: ClassVar[bool] = False
    """Whether its nodes cost money by the hour."""
    baked: ClassVar[bool] = True
    """Whether nodes start from an image that holds what the roles install."""
    first_user: ClassVar[str] = "root"
    """Who logs in where no place says so: root, or somebody who may sudo without a password."""
    via: ClassVar[str | None] = None
    """The node through which others are reached where the network is not ours."""

    kind: Annotated[Literal["lab"], Change.FORBIDDEN] = Field(description="Containers on this machine.")
    os: Annotated[LabOs, Change.FORBIDDEN] = Field(default=LabOs.DEBIAN_13, description="The operating system of every node.")
    image: Annotated[ImageSource, Change.NEW] = Field(
        default=ImageSource.AUTO, description="Pull the base image, bootstrap it, or whichever works."
    )
    mirror: Annotated[str | None, Change.NEW] = Field(
        default=None, pattern=r"^https?://\S+$", description="Package mirror for the bootstrap; the system's own otherwise."
    )

    def place_of(self, name: str) -> None:
        """The plan gives nodes their addresses."""

    def os_of(self, name: str) -> str:
        """One image, one system."""
        return self.os.value

    def type_of(self, group: str) -> None:
        """Containers are what the stack declares."""

    def subnets(self, cidr: IPv4Network) -> dict[Tier, IPv4Network]:
        """One network for all."""
        return {Tier.PRIVATE: cidr}


Target = Annotated[LabTarget | HostsTarget | AwsTarget, Field(discriminator="kind")]
