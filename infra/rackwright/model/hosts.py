"""Target `hosts`: machines that exist already and are reached over SSH. rackwright creates none and deletes none."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Network
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.tier import Tier
from rackwright.model.units import Address4, HostKey, Label, UserName

SSH_PORT = 22


class Place(NamedTuple):
    """Where a node is and who logs in, where the description says so and the plan has nothing to choose."""

    address: str
    user: str
    ssh_port: int


class HostsOs(StrEnum):
    """Operating systems the roles know. Seen working on `hosts`: Debian 13; the others are written and untested."""

    DEBIAN_12 = "debian-12"
    DEBIAN_13 = "debian-13"
    UBUNTU_22_04 = "ubuntu-22.04"
    UBUNTU_24_04 = "ubuntu-24.04"
    ROCKY_9 = "rocky-9"


class Leaving(StrEnum):
    """What becomes of a machine that leaves the stack: `keep` leaves configuration and packages, `clean` removes the configuration."""

    KEEP = "keep"
    CLEAN = "clean"


class Machine(Part):
    """One machine."""

    address: Address4 = Field(description="Its address in the cluster's network: what the nodes call each other by.")
    reach: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*$",
        description="Address or name it is reached at from here; its address in the cluster when left out.",
    )
    port: int | None = Field(default=None, ge=1, le=65535, description="Its SSH port, where it is another than the target's.")
    user: UserName | None = Field(default=None, description="Who logs in, where it is another than the target's.")
    host_key: HostKey | None = Field(
        default=None, description="The key it must show: a fingerprint, like SHA256:…, or the key itself, like ssh-ed25519 AAAA…."
    )
    os: HostsOs | None = Field(default=None, description="Its operating system, where it is another than the target's.")


class HostsTarget(Part):
    """Machines that exist already, over SSH: cheap VMs, refurbished PCs, racks."""

    simulated: ClassVar[tuple[str, ...]] = ()
    owns_network: ClassVar[bool] = False
    publishes: ClassVar[bool] = False
    sets_hostname: ClassVar[bool] = True
    declared_hardware: ClassVar[bool] = False
    metadata_service: ClassVar[bool] = False
    default_cpus: ClassVar[int] = 1
    default_memory: ClassVar[int] = 2**30
    bills: ClassVar[bool] = False
    baked: ClassVar[bool] = False
    first_user: ClassVar[str] = "root"

    kind: Literal["hosts"] = Field(description="Machines that exist already, over SSH.")
    os: HostsOs = Field(description="The operating system of every machine.")
    user: UserName = Field(default="root", description="Who logs in: root, or somebody who may sudo without a password.")
    port: int = Field(default=SSH_PORT, ge=1, le=65535, description="Their SSH port.")
    identity: str | None = Field(
        default=None,
        min_length=1,
        description="The private key of the first login, like ~/.ssh/id_ed25519; the agent's keys when left out. "
        "From then on the stack has a key of its own.",
    )
    via: Label | None = Field(
        default=None, description="The node through which all others are reached; each is reached directly when left out."
    )
    leave: Leaving = Field(default=Leaving.KEEP, description="What becomes of a machine that leaves the stack.")
    containers: bool = Field(
        default=False,
        description="Whether the machines are system containers (LXC, OpenVZ) under a kernel that is not theirs: "
        "then clock, kernel settings and cgroups are left alone.",
    )
    machines: dict[Label, Machine] = Field(description="The machines by node name, one for each node of `groups`.")

    @property
    def gives_cgroups(self) -> bool:
        """Whether the nodes' kernels give Slurm cgroups of its own."""
        return not self.containers

    @property
    def owns_kernel(self) -> bool:
        """Whether their clocks and kernel settings are ours to keep."""
        return not self.containers

    def place_of(self, name: str) -> Place:
        """Where the machine is."""
        machine = self.machines[name]
        return Place(str(machine.address), machine.user or self.user, machine.port or self.port)

    def type_of(self, group: str) -> None:
        """Machines are what the stack declares, and are compared with it."""

    def subnets(self, cidr: IPv4Network) -> dict[Tier, IPv4Network]:
        """One network for all."""
        return {Tier.PRIVATE: cidr}

    def os_of(self, name: str) -> str:
        """The machine's own system, or the target's."""
        machine = self.machines.get(name)
        return (machine.os if machine and machine.os else self.os).value
