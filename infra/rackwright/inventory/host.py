"""A plan node that exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from rackwright.model.targets.hosts import SSH_PORT
from rackwright.plan import Plan


@dataclass(frozen=True, slots=True)
class Host:
    """How to reach a node, the key it must show, and which one of its lives this is."""

    name: str
    address: str
    """The plan's address, or another one where a target says so."""
    public_key: str
    """The SSH host key, as in known_hosts: type and base64."""
    incarnation: str
    """Container or instance id: a node healed under the same name is another one."""
    port: int = SSH_PORT
    user: str = "root"
    boot_public_key: str = ""
    """The key it shows until it is first converged, where its own cannot be given to it before it starts."""
    devices: Mapping[str, str] = field(default_factory=dict)
    """Its data disks: mount point -> device."""
    baked: bool = True
    """Whether what it was made from holds all that the roles install now, on a target whose nodes come with it."""


@dataclass(frozen=True, slots=True)
class SshEndpoint:
    """The address and port a connection opens, and the node it passes through first."""

    address: str
    port: int
    jump: str | None


def ssh_endpoint(plan: Plan, host: Host) -> SshEndpoint:
    """How a connection from outside comes to the host: the ways in directly, all others through the first of them."""
    published = plan.access.ports.get(host.name)
    if published is not None:
        return SshEndpoint(_dialable(plan.access.listen), published, None)
    through = None if host.name in plan.access.jump_hosts else next(iter(plan.access.jump_hosts), None)
    return SshEndpoint(host.address, host.port, through)


def _dialable(listen: str) -> str:
    """Where to connect to what listens there: `any address` is reached through this machine's own."""
    return "127.0.0.1" if IPv4Address(listen).is_unspecified else listen
