"""Target `lab`: containers with systemd on this machine."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.tier import Tier
from rackwright.model.update_policy import UpdatePolicy


class LabOs(StrEnum):
    """Operating systems of lab images."""

    DEBIAN_12 = "debian-12"
    DEBIAN_13 = "debian-13"


class ImageSource(StrEnum):
    """Source of the base image: `auto` pulls it if a registry is reachable and bootstraps it otherwise."""

    AUTO = "auto"
    PULL = "pull"
    BOOTSTRAP = "bootstrap"


class LabTarget(ConfigModel):
    """Containers with systemd on this machine."""

    simulated: ClassVar[tuple[str, ...]] = ("gpu", "fabric")
    """Subsystems whose evidence is simulated on this target."""
    owns_network: ClassVar[bool] = True
    """Whether rackwright creates the network: then only login nodes are published, and all others are reached through them."""
    has_gateway: ClassVar[bool] = True
    """Whether the first address of the network routes to other networks."""
    mtu: ClassVar[int] = 1500
    """MTU of the node network, in bytes."""
    publishes_ports: ClassVar[bool] = True
    """Whether login nodes are published on addresses of this machine."""
    has_cgroups: ClassVar[bool] = False
    """Whether Slurm can create cgroups on the nodes."""
    manage_hostname: ClassVar[bool] = False
    """Whether a role sets the host names; lab nodes are created with theirs."""
    manage_kernel: ClassVar[bool] = False
    """Whether nodes have their own kernels, so that rackwright configures their clocks and kernel settings."""
    trusts_declared_hardware: ClassVar[bool] = True
    """Whether CPUs and memory are taken from the stack file and not from the node."""
    nests_containers: ClassVar[bool] = True
    """Whether nodes are containers, so that containers on them need separate volumes."""
    boot_timeout: ClassVar[float] = 45.0
    """Seconds until a new node is reachable over SSH."""
    metadata_service: ClassVar[bool] = False
    """Whether nodes have a metadata service with identity and credentials at 169.254.169.254, which only root may access."""
    default_cpus: ClassVar[int] = 2
    default_memory: ClassVar[int] = 2**30
    costs_money: ClassVar[bool] = False
    """Whether nodes are billed by the hour."""
    uses_prebuilt_image: ClassVar[bool] = True
    """Whether nodes start from an image that contains the software that the roles install."""
    bootstrap_user: ClassVar[str] = "root"
    """Login user unless the node declares one: root, or a user with passwordless sudo."""
    jump_host: ClassVar[str | None] = None
    """Jump host, if rackwright does not create the network."""

    kind: Annotated[Literal["lab"], UpdatePolicy.FORBIDDEN] = Field(description="Containers on this machine.")
    os: Annotated[LabOs, UpdatePolicy.FORBIDDEN] = Field(default=LabOs.DEBIAN_13, description="Operating system of every node.")
    image: Annotated[ImageSource, UpdatePolicy.NEW] = Field(
        default=ImageSource.AUTO, description="Source of the base image: `pull`, `bootstrap`, or `auto` (pull, else bootstrap)."
    )
    mirror: Annotated[str | None, UpdatePolicy.NEW] = Field(
        default=None, pattern=r"^https?://\S+$", description="Package mirror for the bootstrap. Default: this machine's."
    )

    def location_of(self, name: str) -> None:
        """Return None: the plan assigns the addresses."""

    def architecture_of(self, name: str) -> None:
        """Return None: the stack file declares no processor architecture."""

    def os_of(self, name: str) -> str:
        """Return the operating system, the same for all nodes."""
        return self.os.value

    def instance_type_of(self, group: str) -> None:
        """Return None: the stack file declares the containers' hardware."""

    def subnets(self, cidr: IPv4Network) -> dict[Tier, IPv4Network]:
        """Return one network for all nodes."""
        return {Tier.PRIVATE: cidr}
