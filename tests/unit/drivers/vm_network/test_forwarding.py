"""Who gets a frame in a network of two leaves and two spines, and why not."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.ethernet import BROADCAST, ethernet
from support.vm_networks import OTHER, SPINES, carried, drops, flow, frame, receivers, topology

from rackwright.drivers.vm.network import stations
from rackwright.drivers.vm.network.forwarding import Network
from rackwright.drivers.vm.network.topology import Cable, Port, Switch, Topology


@pytest.mark.parametrize("target", ["w1", "w2", "w3"])
def test_planned_address_gets_first_frame_alone(target: str) -> None:
    assert receivers(Network(topology()), "w0", frame("w0", target)) == [target]


def test_frame_arrives_unchanged() -> None:
    sent = flow("w0", "w3", 50000)
    assert [delivery.frame for delivery in Network(topology()).receive("w0", sent, 0.0)] == [sent]


@pytest.mark.parametrize("destination", [BROADCAST, "33:33:00:00:00:01", OTHER], ids=["broadcast", "multicast", "unknown"])
def test_flood_reaches_each_port_of_network_once(destination: str) -> None:
    assert receivers(Network(topology()), "w0", frame("w0", destination)) == ["w1", "w2", "w3"]


def test_separate_switch_is_a_network_of_its_own() -> None:
    network = Network(topology())
    assert receivers(network, "c0", frame("c0", BROADCAST)) == ["c1"]
    assert receivers(network, "c0", frame("c0", "w0")) == ["c1"]  # unknown in this network


def test_learned_address_gets_frames_alone() -> None:
    network = Network(topology())
    network.receive("w3", frame(OTHER, BROADCAST), 0.0)
    assert receivers(network, "w0", frame("w0", OTHER)) == ["w3"]


def test_learned_address_moves_with_its_last_frame() -> None:
    network = Network(topology())
    for port in ("w3", "w1"):
        network.receive(port, frame(OTHER, BROADCAST), 0.0)
    assert receivers(network, "w0", frame("w0", OTHER)) == ["w1"]


def test_learned_address_ages() -> None:
    network = Network(topology())
    network.receive("w3", frame(OTHER, BROADCAST), 0.0)
    assert receivers(network, "w0", frame("w0", OTHER), 300.0) == ["w3"]
    assert receivers(network, "w0", frame("w0", OTHER), 300.1) == ["w1", "w2", "w3"]


def test_planned_address_cannot_be_taken_over() -> None:
    network = Network(topology())
    network.receive("w3", frame("w1", BROADCAST), 0.0)
    assert receivers(network, "w0", frame("w0", "w1")) == ["w1"]


def test_learned_addresses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stations, "MAX_LEARNED", 2)
    network = Network(topology())
    for last in (1, 2, 3):
        network.receive("w3", frame(f"02:00:00:00:00:{last:02x}", BROADCAST), 0.0)
    assert [len(receivers(network, "w0", frame("w0", f"02:00:00:00:00:{last:02x}"))) for last in (1, 2, 3)] == [3, 1, 1]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"", "malformed"),
        (bytes(13), "malformed"),
        (frame("w0", "01:80:c2:00:00:0e"), "filtered"),
        (frame("w0", "w0"), "filtered"),
        (frame("w0", "w2", 4400 + 15), "mtu"),
        (frame("w0", "w2", 4400 + 15, vlan=5), "mtu"),
    ],
    ids=["empty", "short", "lldp", "to-itself", "mtu", "mtu-tagged"],
)
def test_frame_is_dropped_and_counted(sent: bytes, reason: str) -> None:
    network = Network(topology())
    assert receivers(network, "w0", sent) == [] and drops(network, "w0", "in") == {reason: 1}


@pytest.mark.parametrize("sent", [frame("w0", "w2", 4400 + 14), frame("w0", "w2", 4400 + 14, vlan=5)], ids=["untagged", "tagged"])
def test_longest_frame_passes(sent: bytes) -> None:
    assert receivers(Network(topology()), "w0", sent) == ["w2"]


def test_smaller_mtu_of_second_leaf_drops_at_that_leaf() -> None:
    declared = topology()
    network = Network(replace(declared, switches={**declared.switches, "l2": Switch(mtu=1500)}))
    assert receivers(network, "w0", frame("w0", "w1", 4000)) == ["w1"] and receivers(network, "w0", frame("w0", "w2", 4000)) == []
    assert sum(drops(network, f"l2-{spine}", "b-a").get("mtu", 0) for spine in SPINES) == 1


def test_flows_use_both_spines_and_each_flow_one() -> None:
    network = Network(topology())
    for port, _ in itertools.product(range(49152, 49252), range(2)):
        assert receivers(network, "w0", flow("w0", "w2", port)) == ["w2"]
    found = carried(network)
    assert found["l1-s1"] + found["l1-s2"] == 200 and found["l1-s1"] == found["l2-s1"] and found["l1-s1"] % 2 == 0
    assert 60 <= found["l1-s1"] <= 140


@pytest.mark.parametrize("pulled", [["l1-s1"], ["l2-s1"], ["l1-s1", "l2-s1"]], ids=["own", "far", "spine"])
def test_flows_survive_pulled_cable(pulled: list[str]) -> None:
    network = Network(topology())
    for name in pulled:
        network.set_fault(name, {"up": False}, 0.0)
    before = carried(network)
    assert all(receivers(network, "w0", flow("w0", "w2", port)) == ["w2"] for port in range(49152, 49202))
    assert carried(network) == {**before, "l1-s2": 50, "l2-s2": 50}
    assert receivers(network, "w0", frame("w0", BROADCAST)) == ["w1", "w2", "w3"]


def test_leaf_without_spine_is_unreachable() -> None:
    network = Network(topology())
    for spine in SPINES:
        network.set_fault(f"l2-{spine}", {"up": False}, 0.0)
    assert receivers(network, "w0", frame("w0", "w2")) == [] and drops(network, "w0", "in") == {"unreachable": 1}
    assert receivers(network, "w0", frame("w0", BROADCAST)) == ["w1"] and receivers(network, "w3", frame("w3", "w2")) == ["w2"]


@pytest.mark.parametrize(("sender", "way"), [("w0", "in"), ("w1", "out")])
def test_port_that_is_down_carries_nothing(sender: str, way: str) -> None:
    network = Network(topology())
    network.set_fault("w0", {"up": False}, 0.0)
    target = "w1" if sender == "w0" else "w0"
    assert receivers(network, sender, frame(sender, target)) == [] and drops(network, "w0", way) == {"down": 1}
    network.set_fault("w0", {"up": True}, 0.0)
    assert receivers(network, sender, frame(sender, target)) == [target]


links = some.lists(some.tuples(some.integers(0, 6), some.integers(0, 6)).filter(lambda ends: ends[0] != ends[1]), max_size=14)


@given(links, some.lists(some.booleans(), min_size=14, max_size=14))
def test_any_cabling_floods_each_reachable_port_once(ends: list[tuple[int, int]], up: list[bool]) -> None:
    """Rings, parallel cables and cables that are down: each port of the connected part gets one copy, and unicast gets there."""
    network = Network(
        Topology(
            switches={f"n{number}": Switch(mtu=1500) for number in range(7)},
            ports=tuple(Port(name=f"p{n}", switch=f"n{n}", mac=f"52:54:00:00:01:{n:02x}", peer=f"p{n}") for n in range(7)),
            cables=tuple(Cable(name=f"c{n}", a=f"n{a}", b=f"n{b}", up=up[n]) for n, (a, b) in enumerate(ends)),
        )
    )
    reachable, pending = {0}, [0]
    while pending:
        at = pending.pop()
        beside = {b if a == at else a for n, (a, b) in enumerate(ends) if up[n] and at in (a, b)} - reachable
        reachable |= beside
        pending += beside
    sent = ethernet("52:54:00:00:01:00", BROADCAST, bytes(60))
    assert Counter(delivery.port for delivery in network.receive("p0", sent, 0.0)) == Counter(f"p{n}" for n in reachable - {0})
    for number in range(1, 7):
        sent = ethernet("52:54:00:00:01:00", f"52:54:00:00:01:{number:02x}", bytes(60))
        found = receivers(network, "p0", sent)
        assert found == [f"p{number}"] if number in reachable else f"p{number}" not in found
