"""The cluster's network, and access to it from outside."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Final

from pydantic import Field

from rackwright.model.addresses import Address4, AnyNetwork, Network4
from rackwright.model.base import ConfigModel
from rackwright.model.names import Domain
from rackwright.model.update_policy import OnTarget, UpdatePolicy

_POINT_TO_POINT: Final = 31
"""A /31 has two hosts and no broadcast address (RFC 3021), a /32 is one host."""


class Network(ConfigModel):
    """The network of all nodes."""

    cidr: Annotated[Network4, UpdatePolicy.REPLACE, OnTarget(hosts=UpdatePolicy.RESTART, aws=UpdatePolicy.FORBIDDEN)] = Field(
        description="Address range, for example 10.77.0.0/24, which nothing else on this machine may use."
    )
    domain: Annotated[Domain | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Domain of the node names. Default: <stack>.internal."
    )


class Access(ConfigModel):
    """Access to login nodes, the only nodes that are reachable from outside."""

    port: Annotated[int, UpdatePolicy.REPLACE, OnTarget(hosts=UpdatePolicy.RUN, aws=UpdatePolicy.RUN)] = Field(
        default=2222,
        ge=1,
        le=65535,
        description="Published SSH port of the first login node; additional login nodes use the following ports.",
    )
    bind_address: Annotated[Address4, UpdatePolicy.REPLACE, OnTarget(hosts=UpdatePolicy.RUN, aws=UpdatePolicy.RUN)] = Field(
        default=IPv4Address("127.0.0.1"), description="Address of this machine on which the port is published."
    )
    allowed_cidrs: Annotated[tuple[AnyNetwork, ...], UpdatePolicy.LIVE] = Field(
        default=(IPv4Network("0.0.0.0/0"),),
        description="Networks that the login node's firewall accepts. IPv6 networks on target hosts only; the default admits none.",
    )


def meaning_in(network: IPv4Network, address: IPv4Address) -> str | None:
    """Return what an address means in a network instead of a host, or None.

    >>> meaning_in(IPv4Network("10.0.0.0/24"), IPv4Address("10.0.0.255"))
    'broadcast address'
    """
    if network.prefixlen >= _POINT_TO_POINT:
        return None
    return {network.network_address: "network address", network.broadcast_address: "broadcast address"}.get(address)
