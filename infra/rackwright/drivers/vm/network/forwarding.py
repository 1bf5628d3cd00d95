"""The forwarding of frames between ports. No I/O: frames and the time come in, frames for ports go out.

Switches forward as one fabric: the switch at which a frame enters decides on the port it goes to, the others pass it on along the shortest
paths. A frame for all follows a tree. Nothing can loop, without a spanning tree protocol.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

from rackwright.drivers.vm.network import paths
from rackwright.drivers.vm.network.frames import HEADER_BYTES, exceeds, flow_hash, is_group, is_link_local
from rackwright.drivers.vm.network.links import TRANSIT_BYTES, Cable, Direction, DropReason, Link, Port
from rackwright.drivers.vm.network.stations import Stations
from rackwright.drivers.vm.network.topology import LinkSettings, Topology, settings_of


class Delivery(NamedTuple):
    """A frame that leaves the network at a port now."""

    port: str
    frame: bytes


class Difference(NamedTuple):
    """A property that a fault has changed."""

    name: str
    property: str
    declared: Any
    live: Any


class _Event(NamedTuple):
    """At this time the frame arrives at the end of the direction; without a frame, the direction transmits the next queued one."""

    time: float
    number: int
    direction: Direction
    frame: bytes | None
    target: Port | None
    turn: int

    def is_void(self) -> bool:
        """Return whether the link's settings have changed since: another event transmits the next frame, or the queue was dropped."""
        return self.frame is None and self.turn != self.direction.turn


class Network:
    """Switches, ports and cables with their state."""

    def __init__(self, topology: Topology) -> None:
        self.ports: dict[str, Port] = {}
        self.cables: dict[str, Cable] = {}
        self.mtus: dict[str, int] = {}
        self.mtu_faults: dict[str, int] = {}
        self._stations = Stations({}, {})
        self._events: list[_Event] = []
        self._numbers = itertools.count()
        self.load(topology, 0.0)

    def load(self, topology: Topology, now: float) -> None:
        """Apply a topology. Links that it still has keep counters, faults and frames."""
        ports, cables = {port.name: port for port in topology.ports}, {cable.name: cable for cable in topology.cables}
        for name, port in list(self.ports.items()):
            if name not in ports or ports[name].switch != port.switch:
                self._remove(self.ports.pop(name))
        for name, cable in list(self.cables.items()):
            if name not in cables or (cables[name].a, cables[name].b) != (cable.a, cable.b):
                self._remove(self.cables.pop(name))
        for name, row in ports.items():
            self._declare(self.ports.setdefault(name, Port(name, settings_of(row), row.switch)), settings_of(row), now)
        for name, wire in cables.items():
            self._declare(self.cables.setdefault(name, Cable(name, settings_of(wire), wire.a, wire.b)), settings_of(wire), now)
        self.mtus = {name: switch.mtu for name, switch in topology.switches.items()}
        self.mtu_faults = {name: mtu for name, mtu in self.mtu_faults.items() if mtu != self.mtus.get(name, mtu)}
        self._place_stations(topology)
        self._reroute()

    def set_fault(self, name: str, changes: Mapping[str, Any], now: float) -> None:
        """Change properties of a port or cable, or the MTU of a switch. Raises KeyError for an unknown name."""
        if name in self.mtus:
            self.mtu_faults |= {name: changes["mtu"]}
            self.mtu_faults = {switch: mtu for switch, mtu in self.mtu_faults.items() if mtu != self.mtus[switch]}
            return
        link: Link = self.ports.get(name) or self.cables[name]
        link.set(changes)
        self._apply_settings(link, now)
        self._reroute()

    def clear_faults(self, now: float) -> None:
        """Return every link and switch to what is declared."""
        self.mtu_faults.clear()
        for link in (*self.ports.values(), *self.cables.values()):
            if link.faults:
                link.faults.clear()
                self._declare(link, link.declared, now)
        self._reroute()

    def mtu(self, switch: str) -> int:
        """Return the live MTU of a switch, in bytes."""
        return self.mtu_faults.get(switch) or self.mtus[switch]

    def differences(self) -> list[Difference]:
        """Return what faults have changed."""
        found = [Difference(name, "mtu", self.mtus[name], mtu) for name, mtu in self.mtu_faults.items()]
        for link in (*self.ports.values(), *self.cables.values()):
            found += [Difference(link.name, key, getattr(link.declared, key), value) for key, value in link.faults.items()]
        return sorted(found, key=lambda difference: difference[:2])

    def receive(self, port: str, frame: bytes, now: float) -> list[Delivery]:
        """Accept a frame from a machine; return the frames that leave the network until now. Raises KeyError for an unknown port."""
        out = self.advance(now)
        self._offer(self.ports[port].inward, frame, None, now, out)
        return out

    def advance(self, now: float) -> list[Delivery]:
        """Return the frames that leave the network until now, in order."""
        out: list[Delivery] = []
        while self._events and self._events[0].time <= now:
            event = heapq.heappop(self._events)
            if event.frame is not None:
                event.direction.transit_bytes -= len(event.frame)
                self._arrive(event.direction, event.frame, event.target, event.time, out)
            elif not event.is_void():
                self._transmit_queued(event.direction, event.time, out)
        return out

    def next_due(self) -> float | None:
        """Return the time for which `advance` must be called, None while no frame is on its way."""
        while self._events and self._events[0].is_void():
            heapq.heappop(self._events)
        return self._events[0].time if self._events else None

    def _offer(self, direction: Direction, frame: bytes, target: Port | None, now: float, out: list[Delivery]) -> None:
        """Put a frame onto a link, into its queue, or drop it."""
        if reason := direction.refuses():
            direction.counters.drop(reason)
        elif not direction.must_wait(now):
            self._transmit(direction, frame, target, now, out)
        elif not direction.enqueue(frame, target):
            direction.counters.drop(DropReason.QUEUE)
        elif len(direction.queue) == 1:
            self._schedule(direction.free_at, direction)

    def _transmit(self, direction: Direction, frame: bytes, target: Port | None, now: float, out: list[Delivery]) -> None:
        arrival = direction.transmit(frame, now)
        if arrival <= now:
            self._arrive(direction, frame, target, now, out)
        elif direction.transit_bytes + len(frame) > TRANSIT_BYTES:
            direction.counters.drop(DropReason.QUEUE)
        else:
            direction.transit_bytes += len(frame)
            self._schedule(arrival, direction, frame, target)

    def _transmit_queued(self, direction: Direction, now: float, out: list[Delivery]) -> None:
        """Transmit what may leave now: one frame at the link's rate, all of them once it has no rate."""
        while direction.queue:
            first = direction.dequeue()
            self._transmit(direction, first.frame, first.target, now, out)
            if direction.queue and direction.link.live.rate_mbps is not None:
                self._schedule(direction.free_at, direction)
                return

    def _schedule(self, time: float, direction: Direction, frame: bytes | None = None, target: Port | None = None) -> None:
        heapq.heappush(self._events, _Event(time, next(self._numbers), direction, frame, target, direction.turn))

    def _arrive(self, direction: Direction, frame: bytes, target: Port | None, now: float, out: list[Delivery]) -> None:
        """Take a frame off the end of a link: it leaves the network, or a switch forwards it."""
        if not direction.link.live.up:
            direction.counters.drop(DropReason.DOWN)
            return
        direction.counters.frames += 1
        direction.counters.bytes += len(frame)
        if direction.switch is None:
            out.append(Delivery(direction.link.name, frame))
        elif reason := self._forward(direction, direction.switch, frame, target, now, out):
            direction.counters.drop(reason)

    def _forward(
        self, direction: Direction, switch: str, frame: bytes, target: Port | None, now: float, out: list[Delivery]
    ) -> DropReason | None:
        """Forward a frame that has arrived at a switch; return why it is dropped."""
        if len(frame) < HEADER_BYTES:
            return DropReason.MALFORMED
        if exceeds(frame, self.mtu(switch)):
            return DropReason.MTU
        if direction.port is not None:
            if is_link_local(frame[:6]):
                return DropReason.FILTERED
            self._stations.learn(frame[6:12], direction.port, now)
            target = None if is_group(frame) else self._stations.find(frame[:6], switch, now)
            if target is direction.port:
                return DropReason.FILTERED
        if target is None:
            return self._flood(direction, switch, frame, now, out)
        return self._send_towards(target, switch, frame, now, out)

    def _send_towards(self, target: Port, switch: str, frame: bytes, now: float, out: list[Delivery]) -> DropReason | None:
        if target.switch == switch:
            self._offer(target.outward, frame, target, now, out)
            return None
        ways = self._ways(switch, target.switch)
        if not ways:
            return DropReason.UNREACHABLE
        chosen = ways[0][1] if len(ways) == 1 else ways[paths.choose(flow_hash(frame), [salt for salt, _ in ways])][1]
        self._offer(chosen, frame, target, now, out)
        return None

    def _flood(self, direction: Direction, switch: str, frame: bytes, now: float, out: list[Delivery]) -> DropReason | None:
        """Send a frame to all ports of the switch and along the tree, but not back."""
        if direction.port is None and direction.link.name not in self._tree:
            return DropReason.UNREACHABLE  # The tree has changed since the frame was sent: another copy may come by the new one.
        for onward in self._floods.get(switch, ()):
            if onward.link is not direction.link:
                self._offer(onward, frame, None, now, out)
        return None

    def _ways(self, switch: str, target: str) -> list[tuple[int, Direction]]:
        """Return the directions that lead from a switch towards another one, with the salts by which a flow chooses."""
        if target not in self._routes:
            self._routes[target] = {
                begin: [(paths.salt(name, begin), self.cables[name].leaving(begin)) for name in names]
                for begin, names in paths.next_hops(self._up(), target).items()
            }
        return self._routes[target].get(switch, [])

    def _up(self) -> dict[str, paths.Ends]:
        return {name: (cable.a, cable.b) for name, cable in self.cables.items() if cable.live.up}

    def _reroute(self) -> None:
        """Compute paths over the cables that are up; those to single switches follow on demand."""
        self._routes: dict[str, dict[str, list[tuple[int, Direction]]]] = {}
        self._tree = paths.spanning_tree(self._up())
        self._floods: dict[str, list[Direction]] = {}
        for port in self.ports.values():
            self._floods.setdefault(port.switch, []).append(port.outward)
        for name in sorted(self._tree):
            for switch in (self.cables[name].a, self.cables[name].b):
                self._floods.setdefault(switch, []).append(self.cables[name].leaving(switch))

    def _place_stations(self, topology: Topology) -> None:
        joined = paths.networks(self.mtus, {cable.name: (cable.a, cable.b) for cable in topology.cables})
        planned = {bytes.fromhex(port.mac.replace(":", "")): self.ports[port.name] for port in topology.ports}
        stations = Stations(joined, planned)
        stations.adopt(self._stations, set(self.ports.values()))
        self._stations = stations

    def _declare(self, link: Link, settings: LinkSettings, now: float) -> None:
        before = link.live
        link.declare(settings)
        if link.live != before:
            self._apply_settings(link, now)

    def _apply_settings(self, link: Link, now: float) -> None:
        """Let waiting frames leave at the link's new rate, or drop them if it is down."""
        for direction in link.directions():
            direction.free_at = min(direction.free_at, now)
            if not link.live.up:
                direction.clear()
            elif direction.queue:
                direction.turn += 1
                self._schedule(now, direction)

    def _remove(self, link: Link) -> None:
        """Pull a link that the topology no longer has: frames on it are lost."""
        link.live = LinkSettings(up=False)
        for direction in link.directions():
            direction.clear()
