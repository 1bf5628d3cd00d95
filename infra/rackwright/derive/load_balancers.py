"""Addresses of Services of type LoadBalancer."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Final

from rackwright.derive.layout import FIRST_OFFSET
from rackwright.model.address_range import AddressRange

_DEFAULT_SIZE: Final = 4
"""Number of addresses of the default pool. Chosen: leaves those below it to the gateway and to a control plane's virtual address."""


def default_pool(cidr: IPv4Network) -> AddressRange:
    """Return the last addresses below those of the groups.

    >>> str(default_pool(IPv4Network("10.77.0.0/24")))
    '10.77.0.12-10.77.0.15'
    """
    last = cidr.network_address + FIRST_OFFSET - 1
    return AddressRange(last - _DEFAULT_SIZE + 1, last)
