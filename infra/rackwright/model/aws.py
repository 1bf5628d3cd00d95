"""Target `aws`: instances in a network of their own in one availability zone, through pulumi-aws."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.policy import Change
from rackwright.model.tier import Tier
from rackwright.model.units import Bytes, Label, Seconds

_REGION: Final = r"[a-z]{2}(-[a-z]+)+-[1-9]"
_AMI: Final = r"^ami-([0-9a-f]{8}|[0-9a-f]{17})$"
_RESERVATION: Final = r"^cr-[0-9a-f]{17}$"


class AwsOs(StrEnum):
    """Operating systems whose images the roles know."""

    DEBIAN_12 = "debian-12"
    DEBIAN_13 = "debian-13"
    UBUNTU_22_04 = "ubuntu-22.04"
    UBUNTU_24_04 = "ubuntu-24.04"
    ROCKY_9 = "rocky-9"


_FIRST_USER: Final = {"debian": "admin", "ubuntu": "ubuntu", "rocky": "rocky"}
"""Who may sudo in the distributions' own images (Debian wiki: Cloud/AmazonEC2Image; Ubuntu on AWS: Find images; Rocky Linux AMIs)."""


class Image(Part):
    """A machine image: where its id is looked up, and the id itself once `rackwright pin` has written it."""

    id: Annotated[str | None, Change.NEW] = Field(
        default=None, pattern=_AMI, description="The pinned id; `rackwright pin STACK` writes it."
    )
    parameter: Annotated[str | None, Change.NEW] = Field(
        default=None, pattern=r"^/[A-Za-z0-9_./-]+$", description="The public SSM parameter that holds the newest one's id."
    )
    name: Annotated[str | None, Change.NEW] = Field(default=None, min_length=3, max_length=128, description="Or its name, with * and ?.")
    owner: Annotated[str | None, Change.NEW] = Field(
        default=None, pattern=r"^([0-9]{12}|amazon|self)$", description="Account that owns images of that name."
    )


class OnDemand(Part):
    """Instances at the list price, with a reservation where there is one."""

    kind: Annotated[Literal["on-demand"], Change.NEW] = Field(description="At the list price.")
    reservation: Annotated[str | None, Change.NEW] = Field(
        default=None, pattern=_RESERVATION, description="An on-demand capacity reservation, like cr-0…."
    )


class Spot(Part):
    """Spare capacity that AWS takes back with two minutes' notice."""

    kind: Annotated[Literal["spot"], Change.NEW] = Field(description="Cheaper, and taken back at two minutes' notice.")
    expected_usd_per_hour: Annotated[float | None, Change.RUN] = Field(
        default=None, gt=0, description="What an instance is expected to cost; for `cost`."
    )
    max_usd_per_hour: Annotated[float | None, Change.NEW] = Field(
        default=None, gt=0, description="Never pay more; the list price when left out."
    )


class CapacityBlock(Part):
    """Instances bought ahead for some days."""

    kind: Annotated[Literal["capacity-block"], Change.NEW] = Field(description="Bought ahead for some days.")
    offering: Annotated[str | None, Change.NEW] = Field(
        default=None,
        pattern=r"^cbo?-[0-9a-f]{17}$",
        description="The offering to buy. Buying cannot be undone; destroying the stack only forgets the block.",
    )
    reservation: Annotated[str | None, Change.NEW] = Field(
        default=None, pattern=_RESERVATION, description="Or the block that was bought already, like cr-0…."
    )
    usd_total: Annotated[float | None, Change.RUN] = Field(
        default=None, gt=0, description="What the block costs in all, as its offering says; for `cost`."
    )
    duration: Annotated[Seconds | None, Change.RUN] = Field(
        default=None, description="How long it runs, like 14d; with usd_total `cost` knows its share of an hour."
    )


Purchase = Annotated[OnDemand | Spot | CapacityBlock, Field(discriminator="kind")]


class RootVolume(Part):
    """An instance's own disk: gp3, encrypted, removed with it."""

    size: Annotated[Bytes, Change.NEW] = Field(default=100 * 2**30, description="Like 100GiB.")
    iops: Annotated[int, Change.NEW] = Field(default=3000, ge=1, description="Operations per second; 3000 cost nothing extra.")
    throughput: Annotated[int, Change.NEW] = Field(default=125, ge=1, description="MiB/s; 125 cost nothing extra.")


class Instances(Part):
    """What the instances of one group are."""

    type: Annotated[str, Change.REPLACE] = Field(pattern=r"^[a-z0-9-]+\.[a-z0-9-]+$", description="The instance type, like p5.48xlarge.")
    purchase: Purchase = Field(default=OnDemand(kind="on-demand"), description="How they are bought.")
    efa: Annotated[bool, Change.NEW] = Field(default=False, description="With all the EFA interfaces that the type has.")
    placement_group: Annotated[bool | None, Change.NEW] = Field(default=None, description="Close together; as `efa` says when left out.")
    root: RootVolume = Field(default=RootVolume(), description="Their own disks.")
    image: Image | None = Field(default=None, description="Their image, where it is another than the target's.")

    @property
    def stands_together(self) -> bool:
        """Whether they share a cluster placement group; a capacity block is one place already."""
        wanted = self.efa if self.placement_group is None else self.placement_group
        return wanted and not isinstance(self.purchase, CapacityBlock)


class Nat(StrEnum):
    """How instances without a public address reach the internet."""

    GATEWAY = "gateway"
    NONE = "none"


class AwsTarget(Part):
    """Instances of Amazon EC2."""

    simulated: ClassVar[tuple[str, ...]] = ()
    owns_network: ClassVar[bool] = True
    mtu: ClassVar[int] = 9001
    """Amazon EC2 user guide: Network maximum transmission unit, jumbo frames within a VPC."""
    publishes: ClassVar[bool] = False
    gives_cgroups: ClassVar[bool] = True
    sets_hostname: ClassVar[bool] = True
    owns_kernel: ClassVar[bool] = True
    declared_hardware: ClassVar[bool] = False
    nests_containers: ClassVar[bool] = False
    boots_within: ClassVar[float] = 900.0
    """An estimate, never measured: instances with many GPUs are said to take ten minutes to start."""
    metadata_service: ClassVar[bool] = True
    default_cpus: ClassVar[int] = 2
    default_memory: ClassVar[int] = 2**30
    bills: ClassVar[bool] = True
    baked: ClassVar[bool] = False
    via: ClassVar[str | None] = None

    kind: Annotated[Literal["aws"], Change.FORBIDDEN] = Field(description="Instances of Amazon EC2.")
    region: Annotated[str, Change.FORBIDDEN] = Field(pattern=rf"^{_REGION}$", description="Like us-east-1.")
    zone: Annotated[str, Change.FORBIDDEN] = Field(
        pattern=rf"^{_REGION}[a-z]$", description="The one availability zone of all nodes, like us-east-1a."
    )
    os: Annotated[AwsOs, Change.FORBIDDEN] = Field(default=AwsOs.UBUNTU_24_04, description="The operating system of every node.")
    image: Image = Field(description="The image of every node.")
    instances: Annotated[dict[Label, Instances], Change.MEMBERS] = Field(description="What the instances of each group are.")
    nat: Annotated[Nat, Change.LIVE] = Field(default=Nat.GATEWAY, description="`none` where nodes need nothing from the internet.")
    s3_endpoint: Annotated[bool, Change.LIVE] = Field(
        default=True, description="A gateway endpoint, so that traffic to S3 does not pay for the NAT gateway."
    )
    session_manager: Annotated[bool, Change.LIVE] = Field(default=False, description="Lets AWS Systems Manager into the nodes.")
    tags: Annotated[dict[str, str], Change.LIVE] = Field(default={}, description="Tags of every resource, besides rackwright's own.")

    @property
    def first_user(self) -> str:
        """Who logs in first and may sudo."""
        return _FIRST_USER[self.os.value.split("-")[0]]

    def place_of(self, name: str) -> None:
        """The plan gives nodes their addresses."""

    def os_of(self, name: str) -> str:
        """One system for all."""
        return self.os.value

    def type_of(self, group: str) -> str | None:
        """The instance type of a group; its CPUs, memory and GPUs are the catalogue's."""
        declared = self.instances.get(group)
        return declared.type if declared else None

    def subnets(self, cidr: IPv4Network) -> dict[Tier, IPv4Network]:
        """A quarter with a way in from outside, a quarter for what AWS gives addresses to itself, half for the nodes.

        The interfaces of file systems and endpoints take any free address of their subnet: among the nodes they would take planned ones.
        """
        if cidr.prefixlen > 28:
            return {Tier.PUBLIC: cidr, Tier.PRIVATE: cidr, Tier.SERVICE: cidr}
        public, service = list(cidr.subnets(prefixlen_diff=2))[:2]
        return {Tier.PUBLIC: public, Tier.SERVICE: service, Tier.PRIVATE: list(cidr.subnets())[1]}
