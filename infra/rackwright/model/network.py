"""The cluster's network, and the way into it."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Annotated

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.policy import Change, Except
from rackwright.model.units import Address4, Domain, Network4


class Network(Part):
    """The one network all nodes share."""

    cidr: Annotated[Network4, Change.REPLACE, Except(hosts=Change.RESTART, aws=Change.FORBIDDEN)] = Field(
        description="Its addresses, like 10.77.0.0/24; a range nothing else on this machine uses."
    )
    domain: Annotated[Domain | None, Change.LIVE] = Field(
        default=None, description="Domain of the nodes' names; <stack>.internal when left out."
    )


class Access(Part):
    """How login nodes are reached from outside. Nothing else is."""

    port: Annotated[int, Change.REPLACE, Except(hosts=Change.RUN, aws=Change.RUN)] = Field(
        default=2222, ge=1, le=65535, description="Published SSH port of the first login node; further ones take the next ports."
    )
    listen: Annotated[Address4, Change.REPLACE, Except(hosts=Change.RUN, aws=Change.RUN)] = Field(
        default=IPv4Address("127.0.0.1"), description="Address of this machine it is published on."
    )
    allow: Annotated[tuple[Network4, ...], Change.LIVE] = Field(
        default=(IPv4Network("0.0.0.0/0"),), description="Networks the login node's firewall admits."
    )
