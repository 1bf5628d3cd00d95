"""Target `aws`: EC2 instances in their own VPC in one availability zone, created with pulumi-aws."""

from __future__ import annotations

import re
from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field

from rackwright.model.base import ConfigModel
from rackwright.model.names import Label
from rackwright.model.notation import refuse
from rackwright.model.tier import Tier
from rackwright.model.units import Bytes, Seconds
from rackwright.model.update_policy import UpdatePolicy

_REGION: Final = r"[a-z]{2}(-[a-z]+)+-[1-9]"
_AMI: Final = r"^ami-([0-9a-f]{8}|[0-9a-f]{17})$"
_RESERVATION: Final = r"^cr-[0-9a-f]{17}$"
_ZONE_ID: Final = r"[a-z]{2,5}[0-9](-[a-z]{3}[0-9])?-az[0-9]+"
"""use1-az1, usw2-lax1-az1: the same building for all accounts, which zone names are not (EC2 user guide: Availability Zone IDs)."""


def _zone_name(value: object) -> object:
    """Refuse a zone ID, which only the account can translate."""
    if isinstance(value, str) and re.fullmatch(_ZONE_ID, value):
        look_up = "aws ec2 describe-availability-zones --query 'AvailabilityZones[].[ZoneName,ZoneId]' --output text"
        refuse("zone", f"`{value}` is a zone ID (expected a zone name, for example us-east-1a)", f"look its name up with `{look_up}`")
    return value


class AwsOs(StrEnum):
    """Operating systems that the roles support."""

    DEBIAN_12 = "debian-12"
    DEBIAN_13 = "debian-13"
    UBUNTU_22_04 = "ubuntu-22.04"
    UBUNTU_24_04 = "ubuntu-24.04"
    ROCKY_9 = "rocky-9"


_FIRST_USER: Final = {"debian": "admin", "ubuntu": "ubuntu", "rocky": "rocky"}
"""Users with sudo in the distributions' images (Debian wiki: Cloud/AmazonEC2Image; Ubuntu on AWS: Find images; Rocky Linux AMIs)."""


class Image(ConfigModel):
    """A machine image: the source of its id, and the id itself after `rackwright pin-images` has written it."""

    id: Annotated[str | None, UpdatePolicy.NEW] = Field(
        default=None, pattern=_AMI, description="Pinned AMI id, written by `rackwright pin-images STACK`."
    )
    ssm_parameter: Annotated[str | None, UpdatePolicy.NEW] = Field(
        default=None, pattern=r"^/[A-Za-z0-9_./-]+$", description="Public SSM parameter that contains the id of the newest image."
    )
    name: Annotated[str | None, UpdatePolicy.NEW] = Field(
        default=None, min_length=3, max_length=128, description="Image name instead of `ssm_parameter`; * and ? are wildcards."
    )
    owner: Annotated[str | None, UpdatePolicy.NEW] = Field(
        default=None, pattern=r"^([0-9]{12}|amazon|self)$", description="Account that owns the images with this name."
    )


class OnDemand(ConfigModel):
    """On-demand instances, optionally in a capacity reservation."""

    kind: Annotated[Literal["on-demand"], UpdatePolicy.NEW] = Field(description="On-demand instances at the list price.")
    reservation: Annotated[str | None, UpdatePolicy.NEW] = Field(
        default=None, pattern=_RESERVATION, description="On-demand capacity reservation, for example cr-0…."
    )


class Spot(ConfigModel):
    """Spot instances, which AWS reclaims with two minutes' notice."""

    kind: Annotated[Literal["spot"], UpdatePolicy.NEW] = Field(description="Spot instances; reclaimed with two minutes' notice.")
    expected_usd_per_hour: Annotated[float | None, UpdatePolicy.RUN] = Field(
        default=None, gt=0, description="Expected price per instance and hour in USD, for `rackwright cost`."
    )
    max_usd_per_hour: Annotated[float | None, UpdatePolicy.NEW] = Field(
        default=None, gt=0, description="Maximum price per instance and hour in USD. Default: the on-demand list price."
    )


class CapacityBlock(ConfigModel):
    """An EC2 Capacity Block: instances reserved and paid in advance for a fixed period."""

    kind: Annotated[Literal["capacity-block"], UpdatePolicy.NEW] = Field(description="EC2 Capacity Block.")
    offering: Annotated[str | None, UpdatePolicy.NEW] = Field(
        default=None,
        pattern=r"^cbo?-[0-9a-f]{17}$",
        description="Offering to buy. A purchase cannot be undone; destroying the stack only removes the block from the state.",
    )
    reservation: Annotated[str | None, UpdatePolicy.NEW] = Field(
        default=None, pattern=_RESERVATION, description="Capacity Block that was already bought, instead of `offering`, for example cr-0…."
    )
    usd_total: Annotated[float | None, UpdatePolicy.RUN] = Field(
        default=None, gt=0, description="Total price of the block in USD, as stated in its offering, for `rackwright cost`."
    )
    duration: Annotated[Seconds | None, UpdatePolicy.RUN] = Field(
        default=None, description="Duration of the block, for example 14d. With `usd_total`, `rackwright cost` shows the price per hour."
    )


Purchase = Annotated[OnDemand | Spot | CapacityBlock, Field(discriminator="kind")]


class RootVolume(ConfigModel):
    """Root volume of an instance: gp3, encrypted, deleted with the instance."""

    size: Annotated[Bytes, UpdatePolicy.NEW] = Field(default=100 * 2**30, description="Size of the volume, for example 100GiB.")
    iops: Annotated[int, UpdatePolicy.NEW] = Field(
        default=3000, ge=1, description="I/O operations per second; 3000 are included in the price."
    )
    throughput: Annotated[int, UpdatePolicy.NEW] = Field(
        default=125, ge=1, description="Throughput in MiB/s; 125 are included in the price."
    )


class Instances(ConfigModel):
    """Instances of one group."""

    type: Annotated[str, UpdatePolicy.REPLACE] = Field(
        pattern=r"^[a-z0-9-]+\.[a-z0-9-]+$", description="Instance type, for example p5.48xlarge."
    )
    capacity_type: Purchase = Field(default=OnDemand(kind="on-demand"), description="Purchase option.")
    efa: Annotated[bool, UpdatePolicy.NEW] = Field(default=False, description="Attach all EFA interfaces that the instance type supports.")
    placement_group: Annotated[bool | None, UpdatePolicy.NEW] = Field(
        default=None, description="Use a cluster placement group. Default: the value of `efa`."
    )
    root_volume: RootVolume = Field(default=RootVolume(), description="Root volumes of the instances.")
    image: Image | None = Field(default=None, description="Image of the group. Default: the target's image.")

    @property
    def stands_together(self) -> bool:
        """Return whether the instances share a placement group; false for a Capacity Block, whose instances are colocated already."""
        wanted = self.efa if self.placement_group is None else self.placement_group
        return wanted and not isinstance(self.capacity_type, CapacityBlock)


class Nat(StrEnum):
    """Internet access of instances without a public address."""

    GATEWAY = "gateway"
    NONE = "none"


class AwsTarget(ConfigModel):
    """Amazon EC2 instances."""

    simulated: ClassVar[tuple[str, ...]] = ()
    owns_network: ClassVar[bool] = True
    has_gateway: ClassVar[bool] = True
    mtu: ClassVar[int] = 9001
    """Amazon EC2 user guide: Network maximum transmission unit, jumbo frames within a VPC."""
    publishes_ports: ClassVar[bool] = False
    has_cgroups: ClassVar[bool] = True
    manage_hostname: ClassVar[bool] = True
    manage_kernel: ClassVar[bool] = True
    trusts_declared_hardware: ClassVar[bool] = False
    nests_containers: ClassVar[bool] = False
    boot_timeout: ClassVar[float] = 900.0
    """Seconds. An estimate, not measured: instances with many GPUs reportedly take ten minutes to start."""
    metadata_service: ClassVar[bool] = True
    default_cpus: ClassVar[int] = 2
    default_memory: ClassVar[int] = 2**30
    costs_money: ClassVar[bool] = True
    uses_prebuilt_image: ClassVar[bool] = False
    jump_host: ClassVar[str | None] = None

    kind: Annotated[Literal["aws"], UpdatePolicy.FORBIDDEN] = Field(description="Amazon EC2 instances.")
    region: Annotated[str, UpdatePolicy.FORBIDDEN] = Field(pattern=rf"^{_REGION}$", description="AWS region, for example us-east-1.")
    zone: Annotated[str, BeforeValidator(_zone_name), UpdatePolicy.FORBIDDEN] = Field(
        pattern=rf"^{_REGION}[a-z]$", description="Availability zone of all nodes, by its name in the account, for example us-east-1a."
    )
    os: Annotated[AwsOs, UpdatePolicy.FORBIDDEN] = Field(default=AwsOs.UBUNTU_24_04, description="Operating system of every node.")
    image: Image = Field(description="Machine image of every node.")
    instances: Annotated[dict[Label, Instances], UpdatePolicy.MEMBERS] = Field(description="Instances, by group name.")
    nat: Annotated[Nat, UpdatePolicy.LIVE] = Field(
        default=Nat.GATEWAY,
        description="Internet access of nodes without a public address: `gateway` (NAT gateway) or `none`.",
    )
    s3_endpoint: Annotated[bool, UpdatePolicy.LIVE] = Field(
        default=True, description="S3 gateway endpoint, which avoids NAT gateway charges for traffic to S3."
    )
    session_manager: Annotated[bool, UpdatePolicy.LIVE] = Field(
        default=False, description="Access to the nodes with AWS Systems Manager Session Manager."
    )
    tags: Annotated[dict[str, str], UpdatePolicy.LIVE] = Field(default={}, description="Additional tags of every resource.")

    @property
    def bootstrap_user(self) -> str:
        """Return the user of the first login, who has sudo."""
        return _FIRST_USER[self.os.value.split("-")[0]]

    def location_of(self, name: str) -> None:
        """Return None: the plan assigns the addresses."""

    def architecture_of(self, name: str) -> None:
        """Return None: the stack file declares no processor architecture."""

    def os_of(self, name: str) -> str:
        """Return the operating system, the same for all nodes."""
        return self.os.value

    def instance_type_of(self, group: str) -> str | None:
        """Return the instance type of a group, or None. The catalogue lists its CPUs, memory and GPUs."""
        declared = self.instances.get(group)
        return declared.type if declared else None

    def subnets(self, cidr: IPv4Network) -> dict[Tier, IPv4Network]:
        """Return the subnets: a quarter public, a quarter for services that AWS assigns addresses to, half for the nodes.

        File systems and endpoints take any free address of their subnet. In the nodes' subnet they would take planned addresses.
        """
        if cidr.prefixlen > 28:
            return {Tier.PUBLIC: cidr, Tier.PRIVATE: cidr, Tier.SERVICE: cidr}
        public, service = list(cidr.subnets(prefixlen_diff=2))[:2]
        return {Tier.PUBLIC: public, Tier.SERVICE: service, Tier.PRIVATE: list(cidr.subnets())[1]}
