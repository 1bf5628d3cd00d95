"""Target `vm`: virtual machines on this machine. Each has a kernel of its own."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rackwright.model.addresses import Network4
from rackwright.model.base import ConfigModel
from rackwright.model.targets.cloud_image import CloudImage
from rackwright.model.targets.hosts import HostsOs
from rackwright.model.targets.lab import ImageSource
from rackwright.model.tier import Tier
from rackwright.model.update_policy import UpdatePolicy


class Acceleration(StrEnum):
    """Execution of guest code: `auto` uses KVM where a guest runs under it, else emulation (TCG)."""

    AUTO = "auto"
    KVM = "kvm"
    TCG = "tcg"


class VmTarget(ConfigModel):
    """Virtual machines of QEMU on this machine."""

    simulated: ClassVar[tuple[str, ...]] = ("gpu", "fabric")
    owns_network: ClassVar[bool] = True
    has_gateway: ClassVar[bool] = False
    mtu: ClassVar[int] = 1500
    publishes_ports: ClassVar[bool] = True
    has_cgroups: ClassVar[bool] = True
    manage_hostname: ClassVar[bool] = True
    manage_kernel: ClassVar[bool] = True
    trusts_declared_hardware: ClassVar[bool] = False
    nests_containers: ClassVar[bool] = False
    boot_timeout: ClassVar[float] = 300.0
    """Seconds, longer on a slow machine. An emulated machine responded after 140 s on two cores, and after 310 s at a load of 20, where the
    limit is several times as long. A machine that has ended or has stopped at an error is not waited for."""
    metadata_service: ClassVar[bool] = False
    default_cpus: ClassVar[int] = 2
    default_memory: ClassVar[int] = 2**30
    costs_money: ClassVar[bool] = False
    bootstrap_user: ClassVar[str] = "root"
    jump_host: ClassVar[str | None] = None

    kind: Annotated[Literal["vm"], UpdatePolicy.FORBIDDEN] = Field(description="Virtual machines on this machine.")
    os: Annotated[HostsOs, UpdatePolicy.FORBIDDEN] = Field(
        default=HostsOs.DEBIAN_13, description="Operating system of every node: debian-13, or that of the cloud image."
    )
    acceleration: Annotated[Acceleration, UpdatePolicy.NEW] = Field(
        default=Acceleration.AUTO,
        description="Execution of guest code: `kvm`, `tcg` (emulation, 10 to 20 times slower), or `auto` (KVM if a guest runs under it).",
    )
    image: Annotated[ImageSource, UpdatePolicy.NEW] = Field(
        default=ImageSource.AUTO, description="Source of the base image: `pull`, `bootstrap`, or `auto` (pull, else bootstrap)."
    )
    mirror: Annotated[str | None, UpdatePolicy.NEW] = Field(
        default=None, pattern=r"^https?://\S+$", description="Package mirror for the bootstrap. Default: this machine's."
    )
    cloud_image: Annotated[CloudImage | None, UpdatePolicy.FORBIDDEN] = Field(
        default=None,
        description="Vendor's disk image of the nodes, which boot its kernel and install packages from the vendor's mirrors. "
        "Default: an image that is built here, with all packages.",
    )

    rail_cidr: Annotated[Network4, UpdatePolicy.REPLACE] = Field(
        default=IPv4Network("198.18.0.0/15"),
        description="Address range of the fabric's rails, which is divided into one network for each rail, as large as `network.cidr`. "
        "Default: 198.18.0.0/15, the range for tests of networks (RFC 2544).",
    )

    @property
    def uses_prebuilt_image(self) -> bool:
        """Return whether the image has the packages of the roles."""
        return self.cloud_image is None

    def location_of(self, name: str) -> None:
        """Return None: the plan assigns the addresses."""

    def architecture_of(self, name: str) -> None:
        """Return None: the stack file declares no processor architecture."""

    def os_of(self, name: str) -> str:
        """Return the operating system, the same for all nodes."""
        return self.os.value

    def instance_type_of(self, group: str) -> None:
        """Return None: the stack file declares the machines' hardware."""

    def subnets(self, cidr: IPv4Network) -> dict[Tier, IPv4Network]:
        """Return one network for all nodes."""
        return {Tier.PRIVATE: cidr}
