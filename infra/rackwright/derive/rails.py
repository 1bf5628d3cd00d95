"""Networks of the rails of virtual machines."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network


def rail_networks(whole: IPv4Network, cluster: IPv4Network) -> Iterator[IPv4Network]:
    """Yield one network for each rail, as large as the cluster's, so that a node has the same host part on all; none if none fits.

    >>> [str(network) for network in rail_networks(IPv4Network("198.18.0.0/23"), IPv4Network("10.75.0.0/24"))]
    ['198.18.0.0/24', '198.18.1.0/24']
    """
    if cluster.prefixlen >= whole.prefixlen:
        yield from whole.subnets(new_prefix=cluster.prefixlen)
