"""Which neighbours a node pings on which network, and which node a missing reply is attributed to."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest

from rackwright.checks.cluster import test_node
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.harness.probe import CommandOutput
from rackwright.checks.cluster.probes.neighbours import REACHABILITY, Interface, parse_interfaces
from rackwright.errors import UndeterminedError

NAMES = ("a", "b", "c", "d")
NODE = SimpleNamespace(name="a")


def primary(at):
    return Interface("eth0", f"10.61.0.{at}", "10.61.0.0/24", "veth")


def place(name="a", names=NAMES, **networks):
    """Return one of these nodes; each has its planned address, and given interfaces. None is a node without an answer."""
    planned = {one: {"name": one, "address": f"10.61.0.{at}"} for at, one in enumerate(names, 1)}

    def before(_, one):
        if networks.get(one, ()) is None:
            raise UndeterminedError(f"{one} is unreachable")
        return (primary(names.index(one) + 1), *networks.get(one, ()))

    return SimpleNamespace(node=planned[name], declared=SimpleNamespace(nodes=planned, members=lambda _: names), earlier_result=before)


def pinged(where):
    """Return (interface, address, neighbour) of each ping."""
    return re.findall(r"-I (\S+) (\S+) >.*?; echo \S+ \S+ (\S+) ", REACHABILITY.command_at(where))


def rail(at, name="ens5f0", kind=""):
    return Interface(name, f"10.70.1.{at}", "10.70.1.0/24", kind)


def test_two_neighbours_per_shared_network_are_queried():
    found = pinged(place(a=[rail(1)], b=[], c=[rail(3, "ens6f0")], d=[rail(4, "ens6f0"), rail(14)]))
    assert found == [("eth0", "10.61.0.2", "b"), ("eth0", "10.61.0.3", "c"), ("ens5f0", "10.70.1.3", "c"), ("ens5f0", "10.70.1.14", "d")]


@pytest.mark.parametrize(
    "other",
    [rail(2, "docker0", "bridge"), rail(2, "wg0", "wireguard"), Interface("ens5f0", "10.70.1.1", "10.70.1.0/24", "")],
    ids=["bridge", "tunnel", "the same address on each node"],
)
def test_networks_within_one_machine_are_skipped(other):
    mine = Interface(other.name, "10.70.1.1", other.network, other.kind)
    assert {interface for interface, _, _ in pinged(place(a=[mine], b=[other]))} == {"eth0"}


def test_planned_address_counts_on_any_link():
    where = place(names=("a", "b"))
    where.earlier_result = lambda _, one: (Interface("br0", f"10.61.0.{' ab'.index(one)}", "10.61.0.0/24", "bridge"),)
    assert pinged(where) == [("br0", "10.61.0.2", "b")]


def test_unresponsive_node_is_replaced_by_next():
    assert [name for _, _, name in pinged(place(b=None))] == ["c", "d"]
    with pytest.raises(UndeterminedError, match="no neighbour listed"):
        REACHABILITY.command_at(place(b=None, c=None, d=None))


def test_large_clusters_are_not_read_completely():
    names = tuple(f"n{at}" for at in range(200))
    where = place("n0", names, n0=[rail(1)])
    read = []
    before = where.earlier_result
    where.earlier_result = lambda probe, one: read.append(one) or before(probe, one)
    assert len(pinged(where)) == 2 and len(read) <= 9


def test_secondary_and_link_local_addresses_are_skipped():
    primary, second, single = ({"local": f"10.61.0.{at}", "prefixlen": size} for at, size in ((1, 24), (9, 24), (100, 32)))
    local = {"local": "169.254.1.2", "prefixlen": 16}
    links = [{"ifname": "eth0", "addr_info": [primary, second | {"secondary": True}, single]}, {"ifname": "usb0", "addr_info": [local]}]
    assert [one.address for one in parse_interfaces(json.dumps(links))] == ["10.61.0.1"]


def judged(**answers):
    """Run the check on node a; answers by node, None if there is none."""

    def ask(_, of="a"):
        if answers.get(of) is None:
            raise UndeterminedError(f"{of} is unreachable")
        return REACHABILITY.read(CommandOutput(out=answers[of]))

    test_node.test_neighbours_reachable(NODE, ask, expect := Expect())
    return expect


WELL = "eth0 10.61.0.0/24 c 0\neth0 10.61.0.0/24 d 0\n"
APART = "eth0 10.61.0.0/24 b 1\neth0 10.61.0.0/24 c 0\n"


@pytest.mark.parametrize("mine", ["eth0 10.61.0.0/24 b 0\neth0 10.61.0.0/24 c 0\n", "- - - -\n"])
def test_replies_and_lone_networks_pass(mine):
    assert judged(a=mine).compared == 1


def test_separated_pair_is_named():
    with pytest.raises(Mismatch, match="expected b on eth0: a reply, found b on eth0: no reply"):
        judged(a=APART, b=WELL)


@pytest.mark.parametrize("theirs", [WELL.replace(" 0\n", " 1\n"), None], ids=["reaches none", "does not answer"])
def test_missing_reply_is_attributed_to_isolated_neighbour(theirs):
    assert judged(a=APART, b=theirs).compared == 1


def test_node_isolated_on_one_network_is_named():
    rails = "ens5f0 10.70.1.0/24 b 1\nens5f0 10.70.1.0/24 c 1\n"
    with pytest.raises(Mismatch, match="b on ens5f0: no reply; c on ens5f0: no reply"):
        judged(a=APART.replace("b 1", "b 0") + rails, b=rails.replace("b 1", "c 0"), c=rails)


def test_node_without_any_reply_is_unknown():
    with pytest.raises(UndeterminedError, match="ICMP is filtered, or the node is cut off"):
        judged(a=APART.replace("c 0", "c 1"), b=WELL)


def test_unsent_ping_is_unknown():
    with pytest.raises(UndeterminedError, match="a ping could not be sent"):
        judged(a=WELL + "ens5f0 10.70.1.0/24 b 2\n")
