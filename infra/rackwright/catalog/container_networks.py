"""Address ranges that container engines and libvirt assign to bridges of a machine unless they are configured."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from ipaddress import IPv4Network

from rackwright.catalog import rows


class Use(StrEnum):
    """When the engine assigns a range."""

    DEFAULT = "default"
    """To its default network: as soon as it starts, or starts the first container."""
    POOL = "pool"
    """To the first networks that users create."""
    ROOTLESS = "rootless"
    """Inside of the containers of ordinary users, in a network namespace of their own."""
    LAST = "last"
    """To networks that users create after all other ranges are assigned."""


@dataclass(frozen=True, slots=True)
class ContainerNetwork:
    """One range of one engine."""

    runtime: str
    """docker, podman or libvirt."""
    network: IPv4Network
    use: Use
    bridge: str
    """Interface on the machine."""


@cache
def container_networks() -> tuple[ContainerNetwork, ...]:
    """Return all known ranges, in the order in which an engine assigns them."""
    return tuple(
        ContainerNetwork(row["runtime"], IPv4Network(row["network"]), Use(row["use"]), row["bridge"]) for row in rows("container_networks")
    )
