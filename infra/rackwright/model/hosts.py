"""Target `hosts`: machines that exist already and are reached over SSH. rackwright creates none and deletes none."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, ClassVar, Final, Literal, NamedTuple

from pydantic import Field

from rackwright.model import ranges
from rackwright.model.base import Part
from rackwright.model.economics import Economics
from rackwright.model.policy import Change
from rackwright.model.ranges import MachineName
from rackwright.model.tier import Tier
from rackwright.model.units import Address4, HostKey, Label, UserName

SSH_PORT = 22
_LAST_ADDRESS: Final = IPv4Address("255.255.255.255")


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
    """One machine; under a key like `worker[0-63]`, what several have in common."""

    address: Annotated[Address4 | None, Change.ADOPT] = Field(
        default=None,
        description="Its address in the cluster's network: what the nodes call each other by. Of a range the first; it counts up.",
    )
    reach: Annotated[str | None, Change.ADOPT] = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*$",
        description="Address or name it is reached at from here; its address in the cluster when left out.",
    )
    port: Annotated[int | None, Change.ADOPT] = Field(
        default=None, ge=1, le=65535, description="Its SSH port, where it is another than the target's."
    )
    user: Annotated[UserName | None, Change.ADOPT] = Field(default=None, description="Who logs in, where it is another than the target's.")
    host_key: Annotated[HostKey | None, Change.ADOPT] = Field(
        default=None, description="The key it must show: a fingerprint, like SHA256:…, or the key itself, like ssh-ed25519 AAAA…."
    )
    os: Annotated[HostsOs | None, Change.ADOPT] = Field(
        default=None, description="Its operating system, where it is another than the target's."
    )
    rack: Annotated[Label | None, Change.LIVE] = Field(
        default=None, description="The rack it stands in, where neither its group nor its node says one."
    )
    serial: Annotated[str | None, Change.ADOPT] = Field(
        default=None,
        pattern=r"^[!-~]([ -~]*[!-~])?$",
        max_length=64,
        description="Its serial number; compared with what its firmware says.",
    )
    label: Annotated[str | None, Change.RUN] = Field(
        default=None, pattern=r"^[!-~]([ -~]*[!-~])?$", max_length=64, description="What is written on it, where that is another name."
    )

    def over(self, shared: Machine) -> Machine:
        """What is said of it, and beside that what it shares with others."""
        own = {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}
        return shared.model_copy(update=own)


class HostsTarget(Part):
    """Machines that exist already, over SSH: cheap VMs, refurbished PCs, racks."""

    simulated: ClassVar[tuple[str, ...]] = ()
    owns_network: ClassVar[bool] = False
    mtu: ClassVar[int] = 1500
    publishes: ClassVar[bool] = False
    sets_hostname: ClassVar[bool] = True
    declared_hardware: ClassVar[bool] = False
    nests_containers: ClassVar[bool] = False
    boots_within: ClassVar[float] = 45.0
    metadata_service: ClassVar[bool] = False
    default_cpus: ClassVar[int] = 1
    default_memory: ClassVar[int] = 2**30
    bills: ClassVar[bool] = False
    baked: ClassVar[bool] = False
    first_user: ClassVar[str] = "root"

    kind: Annotated[Literal["hosts"], Change.FORBIDDEN] = Field(description="Machines that exist already, over SSH.")
    os: Annotated[HostsOs, Change.ADOPT] = Field(description="The operating system of every machine.")
    user: Annotated[UserName, Change.ADOPT] = Field(
        default="root", description="Who logs in: root, or somebody who may sudo without a password."
    )
    port: Annotated[int, Change.ADOPT] = Field(default=SSH_PORT, ge=1, le=65535, description="Their SSH port.")
    identity: Annotated[str | None, Change.NEW] = Field(
        default=None,
        min_length=1,
        description="The private key of the first login, like ~/.ssh/id_ed25519; the agent's keys when left out. "
        "From then on the stack has a key of its own.",
    )
    via: Annotated[Label | None, Change.ADOPT] = Field(
        default=None, description="The node through which all others are reached; each is reached directly when left out."
    )
    leave: Annotated[Leaving, Change.ADOPT] = Field(default=Leaving.KEEP, description="What becomes of a machine that leaves the stack.")
    containers: Annotated[bool, Change.ADOPT] = Field(
        default=False,
        description="Whether the machines are system containers (LXC, OpenVZ) under a kernel that is not theirs: "
        "then clock, kernel settings and cgroups are left alone.",
    )
    machines: Annotated[dict[MachineName, Machine], Change.MEMBERS] = Field(
        default={},
        description="The machines by node name, one for each node of `groups`. A key like worker[0-63] says what several share; "
        "a machine's own entry adds to it.",
    )
    economics: Annotated[Economics | None, Change.RUN] = Field(default=None, description="What they cost, for `rackwright cost`.")

    @property
    def gives_cgroups(self) -> bool:
        """Whether the nodes' kernels give Slurm cgroups of its own."""
        return not self.containers

    @property
    def owns_kernel(self) -> bool:
        """Whether their clocks and kernel settings are ours to keep."""
        return not self.containers

    @cached_property
    def range_of(self) -> dict[str, str]:
        """The range that speaks of a machine, by the machine's name."""
        return {name: key for key in self.machines if ranges.is_range(key) for name in ranges.names(key)}

    @cached_property
    def each(self) -> dict[str, Machine]:
        """Every machine by its own name, with all that is said of it."""
        spoken = {
            name: _counted(machine, place)
            for key, machine in self.machines.items()
            if ranges.is_range(key)
            for place, name in enumerate(ranges.names(key))
        }
        own = {key: machine for key, machine in self.machines.items() if not ranges.is_range(key)}
        return spoken | {name: machine.over(spoken[name]) if name in spoken else machine for name, machine in own.items()}

    def place_of(self, name: str) -> Place:
        """Where the machine is."""
        machine = self.each[name]
        return Place(str(machine.address), machine.user or self.user, machine.port or self.port)

    def type_of(self, group: str) -> None:
        """Machines are what the stack declares, and are compared with it."""

    def subnets(self, cidr: IPv4Network) -> dict[Tier, IPv4Network]:
        """One network for all."""
        return {Tier.PRIVATE: cidr}

    def os_of(self, name: str) -> str:
        """The machine's own system, or the target's."""
        machine = self.each.get(name)
        return (machine.os if machine and machine.os else self.os).value


def _counted(shared: Machine, place: int) -> Machine:
    """What a range says, with the address of the machine at that place; none where addresses end before."""
    if shared.address is None or place == 0:
        return shared
    counted = int(shared.address) + place
    return shared.model_copy(update={"address": IPv4Address(counted) if counted <= int(_LAST_ADDRESS) else None})
