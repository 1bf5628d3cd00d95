"""Target `hosts`: existing machines, reached over SSH. rackwright creates and deletes none."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, ClassVar, Final, Literal, NamedTuple

from pydantic import Field

from rackwright.model import ranges
from rackwright.model.addresses import Address4, HostKey, SshEndpointAddress
from rackwright.model.base import ConfigModel
from rackwright.model.names import Label, Rack, RdmaDevice, UserName
from rackwright.model.ranges import MachineName
from rackwright.model.targets.adapters import Adapter
from rackwright.model.targets.bmc import Bmc
from rackwright.model.targets.links import Bond, InterfaceName, Vlan
from rackwright.model.targets.ownership_cost import OwnershipCostInputs
from rackwright.model.tier import Tier
from rackwright.model.units import Seconds
from rackwright.model.update_policy import UpdatePolicy

SSH_PORT = 22
"""Port of SSH (RFC 4253, section 4.1; sshd_config(5), Port)."""
_LAST_ADDRESS: Final = IPv4Address("255.255.255.255")


class NodeLocation(NamedTuple):
    """SSH address and user of a node whose stack file declares them, so that the plan does not assign them."""

    address: str
    user: str
    ssh_port: int
    """Port of the machine's sshd, as the nodes see it. A port forward may give it another one for this machine."""


class HostsOs(StrEnum):
    """Operating systems that the roles support. Tested on `hosts`: Debian 13; the others are implemented and untested."""

    DEBIAN_12 = "debian-12"
    DEBIAN_13 = "debian-13"
    UBUNTU_22_04 = "ubuntu-22.04"
    UBUNTU_24_04 = "ubuntu-24.04"
    ROCKY_9 = "rocky-9"


class Processor(StrEnum):
    """Processor architectures: x86_64 (AMD, Intel), arm64 (Grace, Ampere, Graviton; also called aarch64)."""

    X86_64 = "x86_64"
    ARM64 = "arm64"


class OnRemoval(StrEnum):
    """Treatment of a machine that leaves the stack: `keep` leaves configuration and packages, `clean` removes the configuration."""

    KEEP = "keep"
    CLEAN = "clean"


class MachineType(StrEnum):
    """Type of the machines: `machine` has its own kernel, `system-container` (LXC, OpenVZ) shares the kernel of its host."""

    MACHINE = "machine"
    SYSTEM_CONTAINER = "system-container"


class Machine(ConfigModel):
    """One machine, or the common settings of several machines under a key like `worker[0-63]`."""

    address: Annotated[Address4 | None, UpdatePolicy.ADOPT] = Field(
        default=None,
        description="Address in the cluster's network, by which nodes reach each other. For a range, the first one; it counts up.",
    )
    ssh_address: Annotated[SshEndpointAddress | None, UpdatePolicy.ADOPT] = Field(
        default=None, description="IPv4 or IPv6 address, or name, for SSH from this machine. Default: `address`."
    )
    port: Annotated[int | None, UpdatePolicy.ADOPT] = Field(
        default=None, ge=1, le=65535, description="SSH port for connections from this machine. Default: the target's."
    )
    sshd_port: Annotated[int | None, UpdatePolicy.ADOPT] = Field(
        default=None,
        ge=1,
        le=65535,
        description="Port on which sshd of the machine listens, if a port forward (NAT router, rented GPUs) maps `port` to it. "
        "Default: the target's.",
    )
    user: Annotated[UserName | None, UpdatePolicy.ADOPT] = Field(default=None, description="Login user. Default: the target's.")
    host_key: Annotated[HostKey | None, UpdatePolicy.ADOPT] = Field(
        default=None,
        description="Expected host key: a fingerprint, for example SHA256:…, or the public key, for example ssh-ed25519 AAAA….",
    )
    os: Annotated[HostsOs | None, UpdatePolicy.ADOPT] = Field(default=None, description="Operating system. Default: the target's.")
    architecture: Annotated[Processor | None, UpdatePolicy.ADOPT] = Field(
        default=None, description="Processor architecture: `x86_64` or `arm64`. Default: the target's."
    )
    rack: Annotated[Rack | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Rack of the machine, if neither its group nor its node declares one."
    )
    serial: Annotated[str | None, UpdatePolicy.ADOPT] = Field(
        default=None,
        pattern=r"^[!-~]([ -~]*[!-~])?$",
        max_length=64,
        description="Serial number; compared with the one that the firmware reports.",
    )
    label: Annotated[str | None, UpdatePolicy.RUN] = Field(
        default=None, pattern=r"^[!-~]([ -~]*[!-~])?$", max_length=64, description="Label on the machine, if it differs from the node name."
    )

    adapters: Annotated[dict[RdmaDevice, Adapter] | None, UpdatePolicy.RUN] = Field(
        default=None,
        description="RDMA adapters by device name, with their GUIDs: the checks identify them also while the machine does not respond, "
        "and report a replaced or renamed one.",
    )
    bonds: Annotated[dict[InterfaceName, Bond] | None, UpdatePolicy.RUN] = Field(
        default=None, description="Bonds that the machine is expected to have, by name. Checks compare them; nothing is configured."
    )
    vlans: Annotated[dict[InterfaceName, Vlan] | None, UpdatePolicy.RUN] = Field(
        default=None,
        description="VLAN interfaces that the machine is expected to have, by name. Checks compare them; nothing is configured.",
    )
    power: Annotated[Bmc | None, UpdatePolicy.LIVE] = Field(
        default=None, description="BMC of the machine, for `rackwright power` and power saving. Missing fields are the target's."
    )

    def merged_with(self, shared: Machine) -> Machine:
        """Return this machine with missing fields taken from `shared`."""
        own = {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}
        if self.power is not None:
            own["power"] = self.power.merged_with(shared.power)
        return shared.model_copy(update=own)


class HostsTarget(ConfigModel):
    """Existing machines, reached over SSH: cheap VMs, refurbished PCs, racks."""

    simulated: ClassVar[tuple[str, ...]] = ()
    owns_network: ClassVar[bool] = False
    has_gateway: ClassVar[bool] = False
    mtu: ClassVar[int] = 1500
    publishes_ports: ClassVar[bool] = False
    manage_hostname: ClassVar[bool] = True
    trusts_declared_hardware: ClassVar[bool] = False
    nests_containers: ClassVar[bool] = False
    boot_timeout: ClassVar[float] = 45.0
    metadata_service: ClassVar[bool] = False
    default_cpus: ClassVar[int] = 1
    default_memory: ClassVar[int] = 2**30
    costs_money: ClassVar[bool] = False
    uses_prebuilt_image: ClassVar[bool] = False
    bootstrap_user: ClassVar[str] = "root"

    kind: Annotated[Literal["hosts"], UpdatePolicy.FORBIDDEN] = Field(description="Existing machines, reached over SSH.")
    os: Annotated[HostsOs, UpdatePolicy.ADOPT] = Field(description="Operating system of every machine.")
    architecture: Annotated[Processor | None, UpdatePolicy.ADOPT] = Field(
        default=None,
        description="Processor architecture of every machine: `x86_64` or `arm64`. Default: that of the node's GPU model, arm64 "
        "with gb200, else x86_64.",
    )
    user: Annotated[UserName, UpdatePolicy.ADOPT] = Field(default="root", description="Login user: root, or a user with passwordless sudo.")
    port: Annotated[int, UpdatePolicy.ADOPT] = Field(
        default=SSH_PORT, ge=1, le=65535, description="SSH port of the machines, for connections from this machine."
    )
    sshd_port: Annotated[int | None, UpdatePolicy.ADOPT] = Field(
        default=None,
        ge=1,
        le=65535,
        description="Port on which sshd of the machines listens. Default: `port`, that of the machine included.",
    )
    ssh_private_key_file: Annotated[str | None, UpdatePolicy.NEW] = Field(
        default=None,
        min_length=1,
        description="Path of the private key for the first login, for example ~/.ssh/id_ed25519. Default: the keys of the SSH agent. "
        "Later logins use the stack's own key.",
    )
    connect_timeout: Annotated[Seconds, UpdatePolicy.RUN] = Field(
        default=60,
        description="Time for logins on one machine: attempts that time out are repeated. A third of it where machines are only read.",
    )
    jump_host: Annotated[Label | None, UpdatePolicy.ADOPT] = Field(
        default=None, description="Jump host: node through which all others are reached. Default: each node is reached directly."
    )
    on_removal: Annotated[OnRemoval, UpdatePolicy.ADOPT] = Field(
        default=OnRemoval.KEEP, description="Treatment of a machine that leaves the stack: `keep` or `clean` (removes the configuration)."
    )
    machine_type: Annotated[MachineType, UpdatePolicy.ADOPT] = Field(
        default=MachineType.MACHINE,
        description="Type of the machines: `machine` (physical or virtual, with its own kernel) or `system-container` (LXC, OpenVZ), which "
        "shares its host's kernel: clock, kernel settings and cgroups are not configured.",
    )
    machines: Annotated[dict[MachineName, Machine], UpdatePolicy.MEMBERS] = Field(
        default={},
        description="Machines by node name, one for each node of `groups`. A key like worker[0-63] holds settings of several machines; "
        "a machine's own entry overrides them.",
    )
    power: Annotated[Bmc | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Fields that the BMCs of all machines share. A machine has a BMC only if its own `power` is declared."
    )
    ownership_cost: Annotated[OwnershipCostInputs | None, UpdatePolicy.RUN] = Field(
        default=None, description="Cost of the machines, for `rackwright cost`."
    )

    @property
    def has_cgroups(self) -> bool:
        """Return whether Slurm can create cgroups on the nodes."""
        return self.machine_type is MachineType.MACHINE

    @property
    def manage_kernel(self) -> bool:
        """Return whether rackwright configures the nodes' clocks and kernel settings."""
        return self.machine_type is MachineType.MACHINE

    @cached_property
    def range_of(self) -> dict[str, str]:
        """Return the range that includes a machine, by machine name."""
        return {name: key for key in self.machines if ranges.is_range(key) for name in ranges.names(key)}

    @cached_property
    def machine_by_node(self) -> dict[str, Machine]:
        """Return every machine by name, with the settings of its range and its own entry merged."""
        spoken = {
            name: _counted(machine, place)
            for key, machine in self.machines.items()
            if ranges.is_range(key)
            for place, name in enumerate(ranges.names(key))
        }
        own = {key: machine for key, machine in self.machines.items() if not ranges.is_range(key)}
        return spoken | {name: machine.merged_with(spoken[name]) if name in spoken else machine for name, machine in own.items()}

    def adapters_of(self, name: str) -> dict[str, Adapter]:
        """Return the declared adapters of a machine by device name."""
        machine = self.machine_by_node.get(name)
        return dict(machine.adapters or {}) if machine else {}

    def bonds_of(self, name: str) -> dict[str, Bond]:
        """Return the bonds that a machine is declared to have, by name."""
        machine = self.machine_by_node.get(name)
        return dict(machine.bonds or {}) if machine else {}

    def vlans_of(self, name: str) -> dict[str, Vlan]:
        """Return the VLAN interfaces that a machine is declared to have, by name."""
        machine = self.machine_by_node.get(name)
        return dict(machine.vlans or {}) if machine else {}

    def bmc_of(self, name: str) -> Bmc | None:
        """Return the BMC of a machine with the target's fields, or None if the machine declares none."""
        machine = self.machine_by_node.get(name)
        return machine.power.merged_with(self.power) if machine and machine.power else None

    def location_of(self, name: str) -> NodeLocation:
        """Return the machine's address, login user and port of sshd."""
        machine = self.machine_by_node[name]
        own = machine.sshd_port or self.sshd_port or self.port_of(name)
        return NodeLocation(str(machine.address), machine.user or self.user, own)

    def port_of(self, name: str) -> int:
        """Return the SSH port of a machine for connections from this machine, or from the jump host."""
        return self.machine_by_node[name].port or self.port

    def instance_type_of(self, group: str) -> None:
        """Return None: the stack file declares the machines' hardware."""

    def subnets(self, cidr: IPv4Network) -> dict[Tier, IPv4Network]:
        """Return one network for all nodes."""
        return {Tier.PRIVATE: cidr}

    def architecture_of(self, name: str) -> str | None:
        """Return the declared processor architecture of a machine, by default the target's; None if neither is declared."""
        machine = self.machine_by_node.get(name)
        declared = (machine.architecture if machine else None) or self.architecture
        return declared.value if declared else None

    def os_of(self, name: str) -> str:
        """Return the machine's operating system, by default the target's."""
        machine = self.machine_by_node.get(name)
        return (machine.os if machine and machine.os else self.os).value


def _counted(shared: Machine, place: int) -> Machine:
    """Return a range's settings with the addresses of the machine at this position, or without an address past 255.255.255.255."""
    if shared.power is not None:
        shared = shared.model_copy(update={"power": shared.power.counted(place)})
    if shared.address is None or place == 0:
        return shared
    counted = int(shared.address) + place
    return shared.model_copy(update={"address": IPv4Address(counted) if counted <= int(_LAST_ADDRESS) else None})
