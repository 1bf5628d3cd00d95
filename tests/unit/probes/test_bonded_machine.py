"""An existing machine whose address is on a bridge over a VLAN of a bond, with IPv6 addresses: what each reader says of it.

The samples are of Linux 6.1 and iproute2 6.1: bond0 of e0 and e1, of which one has no carrier, bond0.100, and br0 with several addresses.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_node
from rackwright.checks.cluster.probes.identity import NETWORK, parse_network
from rackwright.checks.cluster.probes.neighbours import parse_interfaces
from rackwright.checks.hardware import parsers
from rackwright.report.verdict import Verdict

CAPTURED = Path(__file__).parents[1] / "captured"
SYSFS = """\
bond0|up|10000|1||||
bond0.100|up|10000|1||||
br0|up|10000|1||||
e0|up|10000|1|mlx5_core|0|e6:0c:4e:17:c8:a3|0000:1a:00.0
e1|lowerlayerdown|10000|1|mlx5_core|0|da:58:7d:34:ed:1b|0000:1a:00.1
ib0|up|100000|32|mlx5_core|0|80:00:02:08:fe:80:00:00:00:00:00:00:94:6d:ae:03:00:f0:12:34|0000:9a:00.0
ip6tnl0|down||769|||00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00|
lo|unknown||772|||00:00:00:00:00:00|
sit0|down||776|||00:00:00:00|
"""
"""Members of a bond have its address; the permanent ones are read (rackwright.checks.cluster.probes.adapters, PERMANENT_MAC)."""


def captured(probe: str) -> str:
    return (CAPTURED / probe / "good-bond.txt").read_text(encoding="utf-8")


def test_addresses_are_those_of_the_bridge() -> None:
    network = parse_network(captured("network"))
    holder = network.holder("10.20.0.5")
    assert holder is not None
    assert (holder.name, holder.addresses) == ("br0", ("10.20.0.5", "10.99.0.5", "10.20.0.6"))
    assert {one.name: one.addresses for one in network.interfaces if one.name != "br0"} == dict.fromkeys(
        ("bond0", "bond0.100", "e0", "e1", "sit0"), ()
    )


def test_default_route_is_that_of_the_lowest_metric() -> None:
    assert parse_network(captured("network")).gateways == ("10.20.0.1",)


@pytest.mark.parametrize(
    ("target", "cidr", "result"),
    [
        ("hosts", "10.20.0.0/24", Verdict.FAILED),  # 10.20.0.6 is a second identity
        ("hosts", "10.20.0.4/31", Verdict.PASSED),
        ("lab", "10.20.0.4/31", Verdict.FAILED),
    ],
)
def test_second_address_counts_in_the_network_of_the_cluster(target: str, cidr: str, result: Verdict) -> None:
    """A site may give an existing machine addresses of other networks."""
    cluster = SimpleNamespace(target=target, network=SimpleNamespace(cidr=cidr), scheduler=SimpleNamespace(kind="slurm"))
    node = SimpleNamespace(address="10.20.0.5", roles=["worker"])
    found = verdict_of(test_node.test_address_matches_plan, answers_of({NETWORK: captured("network")}), node=node, cluster=cluster)
    assert found[0] is result


def test_neighbours_are_searched_on_primary_addresses() -> None:
    found = parse_interfaces(captured("interfaces"))
    assert [(one.name, one.address, one.kind) for one in found] == [("br0", "10.20.0.5", "bridge"), ("br0", "10.99.0.5", "bridge")]


def test_tunnels_have_no_mac_address() -> None:
    """sit0 exists wherever the kernel has loaded the module of IPv6 in IPv4. It made the interfaces of its node partly unread."""
    found = parsers.parse_interfaces(SYSFS)
    assert found.why == ""
    assert {one.name: one.mac for one in found if one.mac} == {
        "e0": "e6:0c:4e:17:c8:a3",
        "e1": "da:58:7d:34:ed:1b",
        "ib0": "80:00:02:08:fe:80:00:00:00:00:00:00:94:6d:ae:03:00:f0:12:34",
    }


def test_damaged_mac_address_of_a_card_stays_unread() -> None:
    assert "e0" in parsers.parse_interfaces(SYSFS.replace("e6:0c:4e:17:c8:a3", "e6:0c:4e")).why
