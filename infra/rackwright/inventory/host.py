"""A plan node that exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from rackwright.model.targets.hosts import SSH_PORT
from rackwright.plan import Plan


@dataclass(frozen=True, slots=True)
class Host:
    """SSH endpoint of a node, its expected key, and the id of its instance."""

    name: str
    address: str
    """The plan's address, or another one that the target sets."""
    public_key: str
    """The SSH host key, as in known_hosts: type and base64."""
    instance_uid: str
    """Container or instance id: a node recreated under the same name has another one."""
    port: int = SSH_PORT
    user: str = "root"
    boot_public_key: str = ""
    """Host key until the first converge, on targets that cannot set the node's own key before it starts."""
    devices: Mapping[str, str] = field(default_factory=dict)
    """Data disks of the node: mount point -> device."""
    baked: bool = True
    """Whether the node's image contains all packages that the roles currently install, on a target with prebuilt images."""


@dataclass(frozen=True, slots=True)
class SshEndpoint:
    """Address and port of a connection, and its jump host."""

    address: str
    port: int
    jump: str | None


def ssh_endpoint(plan: Plan, host: Host) -> SshEndpoint:
    """Return the endpoint and route from outside: login nodes directly, all others through the first of them."""
    published = plan.access.ports.get(host.name)
    if published is not None:
        return SshEndpoint(_dialable(plan.access.listen), published, None)
    through = None if host.name in plan.access.jump_hosts else next(iter(plan.access.jump_hosts), None)
    return SshEndpoint(host.address, host.port, through)


def ssh_sources(plan: Plan, node: str) -> tuple[str, ...]:
    """Return the networks and addresses from which a node's packet filter admits SSH: the jump hosts' on nodes behind them."""
    if node in plan.access.jump_hosts or not plan.access.jump_hosts:
        return plan.access.allow
    return tuple(plan.node(name).address for name in plan.access.jump_hosts)


def _dialable(listen: str) -> str:
    """Return the address to connect to: this machine's own, if the listener accepts any address."""
    return "127.0.0.1" if IPv4Address(listen).is_unspecified else listen
