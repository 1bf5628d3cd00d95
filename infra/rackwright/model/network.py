"""The cluster's network, and the way into it."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.units import Address4, Domain, Network4


class Network(Part):
    """The one network all nodes share."""

    cidr: Network4 = Field(description="Its addresses, like 10.77.0.0/24; a range nothing else on this machine uses.")
    domain: Domain | None = Field(default=None, description="Domain of the nodes' names; <stack>.internal when left out.")


class Access(Part):
    """How login nodes are reached from outside. Nothing else is."""

    port: int = Field(
        default=2222, ge=1, le=65535, description="Published SSH port of the first login node; further ones take the next ports."
    )
    listen: Address4 = Field(default=IPv4Address("127.0.0.1"), description="Address of this machine it is published on.")
    allow: tuple[Network4, ...] = Field(default=(IPv4Network("0.0.0.0/0"),), description="Networks the login node's firewall admits.")
