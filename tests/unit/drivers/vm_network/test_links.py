"""When a frame arrives, and which are lost: rate, delay, loss, queues. The test passes the time."""

from __future__ import annotations

import pytest
from support.ethernet import BROADCAST
from support.vm_networks import SIZE, carried, drops, flow, frame, receivers, topology

from rackwright.drivers.vm.network.forwarding import Network
from rackwright.drivers.vm.network.links import QUEUE_BYTES, TRANSIT_BYTES


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


def test_idle_network_has_nothing_due() -> None:
    network = Network(topology(ports={"rate_mbps": 100}))
    network.receive("w0", frame("w0", BROADCAST), 0.0)
    assert network.advance(1.0) == [] and network.next_due() is None
