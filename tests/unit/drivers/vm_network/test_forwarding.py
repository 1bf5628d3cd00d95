"""Forwarding through two leaves and two spines: who gets a frame, when, and why not. The test passes the time."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.ethernet import BROADCAST, ethernet, udp

from rackwright.drivers.vm.network import stations
from rackwright.drivers.vm.network.forwarding import Difference, Network
from rackwright.drivers.vm.network.links import QUEUE_BYTES, TRANSIT_BYTES
from rackwright.drivers.vm.network.topology import Cable, Port, Switch, Topology

MACS = {name: f"52:54:00:00:00:{number:02x}" for number, name in enumerate(("w0", "w1", "w2", "w3", "c0", "c1"))}
OTHER = "02:00:00:00:00:99"
"""An address that no port declares."""
SPINES = ("s1", "s2")


def topology(*, mtu: int = 4400, ports: Mapping[str, Any] | None = None, cables: Mapping[str, Any] | None = None) -> Topology:
    """Return w0 and w1 on leaf l1, w2 and w3 on leaf l2, two spines, and apart from them c0 and c1 on one switch."""
    switches = {"w0": "l1", "w1": "l1", "w2": "l2", "w3": "l2", "c0": "cluster", "c1": "cluster"}
    return Topology(
        switches={name: Switch(mtu=mtu) for name in ("l1", "l2", *SPINES, "cluster")},
        ports=tuple(
            Port(name=name, switch=switch, mac=MACS[name], peer=f"{name}.peer", **(ports or {})) for name, switch in switches.items()
        ),
        cables=tuple(Cable(name=f"{leaf}-{spine}", a=leaf, b=spine, **(cables or {})) for leaf in ("l1", "l2") for spine in SPINES),
    )


def frame(source: str, destination: str, size: int = 100, **given: Any) -> bytes:
    """Return a frame between ports or addresses, of this size in bytes without a tag."""
    return ethernet(MACS.get(source, source), MACS.get(destination, destination), bytes(size - 14), **given)


def flow(source: str, destination: str, port: int) -> bytes:
    """Return a frame of RoCEv2 with this source port."""
    return ethernet(MACS[source], MACS[destination], udp("10.0.0.1", "10.0.0.2", (port, 4791)), kind=0x0800)


def receivers(network: Network, port: str, sent: bytes, now: float = 0.0) -> list[str]:
    """Return the ports that get the frame, once each time."""
    return sorted(delivery.port for delivery in network.receive(port, sent, now))


def drops(network: Network, name: str, way: str) -> dict[str, int]:
    """Return the drops of one direction by reason."""
    link = network.ports.get(name) or network.cables[name]
    return next(direction.counters.as_row()["drops"] for direction in link.directions() if direction.name == way)


def carried(network: Network) -> dict[str, int]:
    """Return the frames that each cable has carried."""
    return {name: sum(way.counters.frames for way in cable.directions()) for name, cable in network.cables.items()}


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


def test_delay_is_that_of_each_link_on_the_way() -> None:
    network = Network(topology(ports={"delay_ms": 1}, cables={"delay_ms": 20}))
    assert network.receive("w0", frame("w0", "w2"), 5.0) == [] and network.next_due() == pytest.approx(5.001)
    assert network.advance(5.0419) == [] and [delivery.port for delivery in network.advance(5.0421)] == ["w2"]
    assert network.next_due() is None


def test_delayed_frames_do_not_overtake() -> None:
    network = Network(topology(ports={"delay_ms": 10}))
    network.receive("w0", frame("w0", "w1", 100), 0.0)
    network.set_fault("w0", {"delay_ms": 0}, 0.001)
    network.receive("w0", frame("w0", "w1", 200), 0.002)
    assert [len(delivery.frame) for delivery in network.advance(1.0)] == [100, 200]


def test_loss_is_reproducible_and_near_its_share() -> None:
    runs = []
    for _ in range(2):
        network = Network(topology(cables={"loss": 0.1}))
        runs.append([bool(network.receive("w0", frame("w0", "w2"), 0.0)) for _ in range(1000)])
        assert sum(drops(network, name, "a-b").get("loss", 0) for name in ("l1-s1", "l1-s2")) in range(60, 140)
    assert runs[0] == runs[1] and 740 < sum(runs[0]) < 880


def test_lossless_link_beside_lossy_one_loses_nothing() -> None:
    network = Network(topology())
    network.set_fault("w3", {"loss": 1}, 0.0)
    assert receivers(network, "w0", frame("w0", BROADCAST)) == ["w1", "w2"] and drops(network, "w3", "out") == {"loss": 1}


SIZE = 1250 - 24
"""Bytes of a frame that occupies a link of 100 Mbit/s for 100 µs, with preamble, check sequence and gap."""


@pytest.mark.parametrize("where", ["port", "cable"])
def test_rate_holds_frames_exactly(where: str) -> None:
    network = Network(topology(**{f"{where}s": {"rate_mbps": 100}}))
    first = [network.receive("w0", frame("w0", "w2", SIZE), 0.0) for _ in range(101)]
    assert [len(deliveries) for deliveries in first] == [1] + [0] * 100
    assert len(network.advance(0.00505)) == 50 and len(network.advance(0.00995)) == 49
    assert len(network.advance(0.01005)) == 1 and network.next_due() is None


def test_rate_of_slowest_link_counts() -> None:
    network = Network(topology(ports={"rate_mbps": 100}))
    network.set_fault("w2", {"rate_mbps": 10}, 0.0)
    early = sum(len(network.receive("w0", frame("w0", "w2", SIZE), number * 1e-4)) for number in range(100))
    assert early + len(network.advance(0.0501)) == 1 + 50 and len(network.advance(0.0601)) == 10


def test_idle_time_is_not_saved_up() -> None:
    network = Network(topology(ports={"rate_mbps": 100}))
    sent = [len(network.receive("w0", frame("w0", "w1", SIZE), 60.0)) for _ in range(5)]
    assert sent == [1, 0, 0, 0, 0]


def test_late_timer_does_not_slow_a_link() -> None:
    """A loop that wakes once per 10 ms still gets the declared rate."""
    network = Network(topology(ports={"rate_mbps": 100}))
    for _ in range(500):
        network.receive("w0", frame("w0", "w2", SIZE), 0.0)
    assert [len(network.advance(step / 100 + 1e-6)) for step in range(1, 6)] == [100, 100, 100, 100, 99]


def test_queue_of_link_is_bounded() -> None:
    network = Network(topology())
    network.set_fault("w2", {"rate_mbps": 1}, 0.0)
    size, out = 4000, network.ports["w2"].outward
    for _ in range(2 * QUEUE_BYTES // size):
        network.receive("w0", frame("w0", "w2", size), 0.0)
    waiting = QUEUE_BYTES // size
    assert drops(network, "w2", "out") == {"queue": 2 * (QUEUE_BYTES // size) + (2 * QUEUE_BYTES // size) % 2 - waiting - 1}
    assert out.queued_bytes == waiting * size


def test_bytes_on_the_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rackwright.drivers.vm.network.forwarding.TRANSIT_BYTES", 10_000)
    network = Network(topology(ports={"delay_ms": 60_000}))
    for _ in range(11):
        network.receive("w0", frame("w0", "w1", 1000), 0.0)
    assert drops(network, "w0", "in") == {"queue": 1} and TRANSIT_BYTES > 10_000
    network.advance(60.0)
    network.receive("w0", frame("w0", "w1", 1000), 61.0)
    assert drops(network, "w0", "in") == {"queue": 1}


def test_frames_of_faster_link_do_not_wait_behind_later_ones() -> None:
    """A frame that is under way for long must not occupy the next link before it arrives there."""
    network = Network(topology(ports={"rate_mbps": 100}))
    network.set_fault("w0", {"delay_ms": 20}, 0.0)
    network.receive("w0", frame("w0", "w2"), 0.0)
    assert receivers(network, "w1", frame("w1", "w2"), 0.001) == ["w2"]


def test_pulled_cable_loses_what_is_on_it() -> None:
    network = Network(topology(cables={"rate_mbps": 1, "delay_ms": 5}))
    chosen = next(port for port in range(49152, 49252) if _first_cable(port) == "l1-s1")
    for _ in range(3):
        network.receive("w0", flow("w0", "w2", chosen), 0.0)
    network.set_fault("l1-s1", {"up": False}, 0.001)
    assert network.advance(1.0) == [] and drops(network, "l1-s1", "a-b") == {"down": 3}
    network.receive("w0", flow("w0", "w2", chosen), 1.0)
    assert [delivery.port for delivery in network.advance(2.0)] == ["w2"]


def _first_cable(port: int) -> str:
    network = Network(topology())
    network.receive("w0", flow("w0", "w2", port), 0.0)
    return next(name for name, frames in carried(network).items() if frames and name.startswith("l1"))


def test_cleared_rate_releases_the_queue() -> None:
    network = Network(topology())
    network.set_fault("w0", {"rate_mbps": 0.01}, 0.0)
    for _ in range(5):
        network.receive("w0", frame("w0", "w1"), 0.0)
    network.clear_faults(0.001)
    assert network.next_due() == 0.001 and len(network.advance(0.001)) == 4 and network.next_due() is None


def test_changed_rate_holds_for_waiting_frames() -> None:
    network = Network(topology(ports={"rate_mbps": 0.01}))
    for _ in range(11):
        network.receive("w0", frame("w0", "w1", SIZE), 0.0)
    network.set_fault("w0", {"rate_mbps": 100}, 0.5)
    network.set_fault("w1", {"rate_mbps": None}, 0.5)
    assert sum(len(network.advance(0.5 + step * 1e-4 + 1e-6)) for step in range(10)) == 10


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


def test_idle_network_has_nothing_due() -> None:
    network = Network(topology(ports={"rate_mbps": 100}))
    network.receive("w0", frame("w0", BROADCAST), 0.0)
    assert network.advance(1.0) == [] and network.next_due() is None


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
