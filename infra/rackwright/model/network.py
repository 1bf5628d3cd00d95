"""The cluster's network, and access to it from outside."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Annotated

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.units import Address4, Domain, Network4
from rackwright.model.update_policy import OnTarget, UpdatePolicy


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
    allowed_cidrs: Annotated[tuple[Network4, ...], UpdatePolicy.LIVE] = Field(
        default=(IPv4Network("0.0.0.0/0"),), description="Networks that the login node's firewall accepts."
    )
