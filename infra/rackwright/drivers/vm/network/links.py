"""Ports and cables: rate, delay and loss of each direction, with counters. No I/O; the caller passes the time."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from rackwright.drivers.vm.network.frames import WIRE_OVERHEAD_BYTES
from rackwright.drivers.vm.network.topology import LinkSettings

QUEUE_BYTES: Final = 1 << 20
"""Bytes that wait for a link with a rate, per direction. Chosen: the window of eight RDMA writes of 64 KiB in each direction of a pair
of machines; at 100 Mbit/s 84 ms."""
TRANSIT_BYTES: Final = 16 << 20
"""Bytes on the way over a link with a delay, per direction. Chosen: 1 Gbit/s for 128 ms."""


class DropReason(StrEnum):
    """Why a frame did not reach its destination. It is counted in the direction of the link that carried the frame last."""

    DOWN = "down"
    """The link was down, or went down while the frame was on it."""
    LOSS = "loss"
    QUEUE = "queue"
    """The link's queue was full."""
    MTU = "mtu"
    """The switch at the end of the link has a smaller MTU."""
    MALFORMED = "malformed"
    """Shorter than an Ethernet header."""
    FILTERED = "filtered"
    """A frame that no switch forwards: to an address of the link itself, or back to where it came from."""
    UNREACHABLE = "unreachable"
    """No path over cables that are up."""
    PEER_ABSENT = "peer-absent"
    """No process has the machine's socket."""
    PEER_FULL = "peer-full"
    """The machine did not read its socket, and the queue for it was full."""


@dataclass(slots=True)
class Counters:
    """Frames and bytes that reached the end of a direction, and frames dropped on it or at its end."""

    frames: int = 0
    bytes: int = 0
    drops: dict[DropReason, int] = field(default_factory=dict)

    def drop(self, reason: DropReason) -> None:
        """Count a dropped frame."""
        self.drops[reason] = self.drops.get(reason, 0) + 1

    def as_row(self) -> dict[str, Any]:
        """Return plain data."""
        return {"frames": self.frames, "bytes": self.bytes, "drops": {str(reason): number for reason, number in sorted(self.drops.items())}}


class Link(ABC):
    """A port's or cable's settings: declared, and live with the faults that override them."""

    def __init__(self, name: str, declared: LinkSettings) -> None:
        self.name, self.declared = name, declared
        self.faults: dict[str, Any] = {}
        self.live = declared

    @abstractmethod
    def directions(self) -> tuple[Direction, Direction]:
        """Return both directions."""

    def declare(self, settings: LinkSettings) -> None:
        """Change the declared settings; faults remain."""
        self.declared = settings
        self.set({})

    def set(self, changes: Mapping[str, Any]) -> None:
        """Override settings. A value equal to the declared one ends the fault."""
        declared = asdict(self.declared)
        self.faults = {name: value for name, value in {**self.faults, **changes}.items() if value != declared[name]}
        self.live = replace(self.declared, **self.faults)


class Waiting(NamedTuple):
    """A frame in a queue and the port to which it goes, None for all."""

    frame: bytes
    target: Port | None


class Direction:
    """One direction of a link: transmits one frame at a time at the link's rate, the others wait. `switch` is where it ends."""

    def __init__(self, link: Link, name: str, *, switch: str | None = None, port: Port | None = None) -> None:
        self.link, self.name, self.switch, self.port = link, name, switch, port
        self.counters = Counters()
        self.queue: deque[Waiting] = deque()
        self.queued_bytes = self.transit_bytes = 0
        self.free_at = self.last_arrival = 0.0
        self.turn = 0
        """Number of the event that transmits the next queued frame; earlier events are void."""
        # The name seeds the losses: a run with the same frames loses the same ones.
        self._random = random.Random(f"{link.name} {name}")

    def refuses(self) -> DropReason | None:
        """Return why the next frame does not get onto the link."""
        live = self.link.live
        if not live.up:
            return DropReason.DOWN
        if live.loss and self._random.random() < live.loss:
            return DropReason.LOSS
        return None

    def must_wait(self, now: float) -> bool:
        """Return whether other frames come first."""
        return bool(self.queue) or (self.link.live.rate_mbps is not None and self.free_at > now)

    def enqueue(self, frame: bytes, target: Port | None) -> bool:
        """Add a frame to the queue; return False if it is full."""
        if self.queued_bytes + len(frame) > QUEUE_BYTES:
            return False
        self.queue.append(Waiting(frame, target))
        self.queued_bytes += len(frame)
        return True

    def dequeue(self) -> Waiting:
        """Return the next frame."""
        first = self.queue.popleft()
        self.queued_bytes -= len(first.frame)
        return first

    def transmit(self, frame: bytes, now: float) -> float:
        """Occupy the link with a frame; return when it arrives, in seconds.

        A frame arrives when its first bit does (cut-through): an unloaded link delays it by `delay_ms` only. Frames do not overtake.
        """
        live = self.link.live
        if live.rate_mbps is not None:
            self.free_at = now + (len(frame) + WIRE_OVERHEAD_BYTES) * 8 / (live.rate_mbps * 1e6)
        self.last_arrival = max(now + live.delay_ms / 1e3, self.last_arrival)
        return self.last_arrival

    def clear(self) -> None:
        """Drop the queue: the link is down."""
        while self.queue:
            self.dequeue()
            self.counters.drop(DropReason.DOWN)
        self.turn += 1


class Port(Link):
    """A vNIC's link: `inward` leads from the machine to the switch, `outward` back."""

    def __init__(self, name: str, declared: LinkSettings, switch: str) -> None:
        super().__init__(name, declared)
        self.switch = switch
        self.inward = Direction(self, "in", switch=switch, port=self)
        self.outward = Direction(self, "out", port=self)

    def directions(self) -> tuple[Direction, Direction]:
        """Return both directions."""
        return self.inward, self.outward


class Cable(Link):
    """A link between two switches, with a direction to each."""

    def __init__(self, name: str, declared: LinkSettings, a: str, b: str) -> None:
        super().__init__(name, declared)
        self.a, self.b = a, b
        self.a_to_b = Direction(self, "a-b", switch=b)
        self.b_to_a = Direction(self, "b-a", switch=a)

    def directions(self) -> tuple[Direction, Direction]:
        """Return both directions."""
        return self.a_to_b, self.b_to_a

    def leaving(self, switch: str) -> Direction:
        """Return the direction that begins at this switch."""
        return self.a_to_b if switch == self.a else self.b_to_a
