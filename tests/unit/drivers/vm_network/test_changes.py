"""Faults, and changes of a network that carries frames."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.ethernet import BROADCAST, ethernet
from support.vm_networks import OTHER, SIZE, frame, receivers, topology

from rackwright.drivers.vm.network.forwarding import Difference, Network
from rackwright.drivers.vm.network.topology import Port


def test_differences_name_faults() -> None:
    network = Network(topology(ports={"rate_mbps": 100}))
    network.set_fault("w0", {"rate_mbps": 10, "loss": 0.5}, 0.0)
    network.set_fault("l1-s1", {"up": False}, 0.0)
    network.set_fault("l2", {"mtu": 1500}, 0.0)
    assert network.differences() == [
        Difference("l1-s1", "up", True, False),
        Difference("l2", "mtu", 4400, 1500),
        Difference("w0", "loss", 0.0, 0.5),
        Difference("w0", "rate_mbps", 100, 10),
    ]
    network.set_fault("w0", {"rate_mbps": 100}, 0.0)
    network.set_fault("l2", {"mtu": 4400}, 0.0)
    assert [difference[:2] for difference in network.differences()] == [("l1-s1", "up"), ("w0", "loss")]
    network.clear_faults(0.0)
    assert network.differences() == [] and receivers(network, "w0", frame("w0", "w2", 4000)) == ["w2"]


def test_mtu_fault_of_leaf_drops_large_frames() -> None:
    network = Network(topology())
    network.set_fault("l1", {"mtu": 1500}, 0.0)
    assert receivers(network, "w0", frame("w0", "w2", 1514)) == ["w2"] and receivers(network, "w0", frame("w0", "w2", 1515)) == []


def test_unknown_name_is_no_link() -> None:
    with pytest.raises(KeyError):
        Network(topology()).set_fault("w9", {"up": False}, 0.0)


def test_load_keeps_counters_faults_frames_and_learned_addresses() -> None:
    declared = topology(ports={"delay_ms": 10})
    network = Network(declared)
    network.receive("w3", frame(OTHER, BROADCAST), 0.0)
    network.advance(1.0)
    network.set_fault("l1-s1", {"loss": 0.5}, 1.0)
    network.receive("w0", frame("w0", "w1"), 1.0)
    added = Port(name="w4", switch="l2", mac="52:54:00:00:00:44", peer="w4.peer")
    network.load(replace(declared, ports=(*declared.ports[:-2], added)), 1.001)
    assert [delivery.port for delivery in network.advance(2.0)] == ["w1"] and network.ports["w0"].inward.counters.frames == 1
    assert [difference.name for difference in network.differences()] == ["l1-s1"] and "c0" not in network.ports
    network.receive("w4", ethernet("52:54:00:00:00:44", OTHER, bytes(60)), 2.0)
    assert [delivery.port for delivery in network.advance(3.0)] == ["w3"]


def test_load_moves_port_and_cables() -> None:
    declared = topology()
    network = Network(declared)
    moved = replace(declared.ports[0], switch="cluster")
    network.load(replace(declared, ports=(moved, *declared.ports[1:]), cables=declared.cables[1:]), 0.0)
    assert receivers(network, "w0", frame("w0", BROADCAST)) == ["c0", "c1"] and receivers(network, "w1", frame("w1", "w2")) == ["w2"]
    assert sorted(network.cables) == ["l1-s2", "l2-s1", "l2-s2"]


def test_load_without_change_keeps_pace_of_queue() -> None:
    declared = topology(ports={"rate_mbps": 100})
    network = Network(declared)
    for _ in range(3):
        network.receive("w0", frame("w0", "w1", SIZE), 0.0)
    network.load(declared, 0.00001)
    assert network.next_due() == pytest.approx(0.0001)


def test_removed_port_loses_what_is_on_the_way() -> None:
    declared = topology(ports={"delay_ms": 10})
    network = Network(declared)
    network.receive("w0", frame("w0", "w1"), 0.0)
    network.receive("w2", frame("w2", "w3"), 0.0)
    network.load(replace(declared, ports=declared.ports[2:]), 0.001)
    assert [delivery.port for delivery in network.advance(1.0)] == ["w3"]
    with pytest.raises(KeyError):
        network.receive("w0", frame("w0", "w1"), 1.0)
