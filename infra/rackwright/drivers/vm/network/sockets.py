"""Sockets of a port: one that the machine sends to, one that sends to the machine. A datagram is a frame."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from rackwright.drivers.vm.network.links import DropReason

QUEUE_BYTES: Final = 1 << 20
"""Bytes that wait for a machine which does not read its socket. Chosen: as much as waits for a link (links.QUEUE_BYTES)."""
_BATCH: Final = 32
"""Frames read from one machine before the others have their turn. Chosen: some, so that a machine that sends without pause delays the
others by less than a millisecond."""
_FRAME_BYTES: Final = 1 << 17
"""Bytes read for a frame; more than the longest: an MTU of 65,535, header and VLAN tags."""
_SEND_BYTES: Final = 1 << 20
"""Send buffer that is requested; the kernel grants net.core.wmem_max at most (socket(7), SO_SNDBUF)."""
_FULL: Final = (BlockingIOError, InterruptedError)
log = logging.getLogger("rackwright.vm.network")


class PortSocket:
    """The sockets of one port in the working directory. Requires a running loop.

    The sending socket is connected, because only then the kernel reports that a full peer reads again. The receiving one is not: a socket
    that is connected refuses datagrams of a machine that was restarted.
    """

    def __init__(self, name: str, peer: str, on_frame: Callable[[str, bytes], None], on_drop: Callable[[str, DropReason], None]) -> None:
        self.name, self.peer = name, peer
        self.present: bool | None = None
        """Whether the machine's socket existed at the last attempt to reach it."""
        self._on_frame, self._on_drop = on_frame, on_drop
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._receiver, self._sender = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) for _ in range(2))
        try:
            self._sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
            self._receiver.bind(self.path)
        except OSError:
            self._receiver.close()
            self._sender.close()
            raise
        self._loop.add_reader(self._receiver, self._read)

    @property
    def path(self) -> str:
        """The socket to which the machine sends, in the network's folder."""
        return f"{self.name}.sock"

    def send(self, frame: bytes) -> None:
        """Send a frame to the machine, or queue it while the machine does not read; count it as dropped if there is none."""
        if self._queue:
            self._enqueue(frame)
        elif not self._try(frame):
            self._enqueue(frame)
            self._loop.add_writer(self._sender, self._flush)

    def connect(self) -> bool:
        """Connect to the machine's socket; return whether a process has it."""
        try:
            self._sender.connect(self.peer)
        except OSError as error:
            self._note(False, str(error.strerror))
            return False
        self._note(True, "")
        return True

    def move(self, peer: str) -> None:
        """Send to another socket from now on."""
        if peer != self.peer:
            self.peer, self.present = peer, None
            self._forget(DropReason.PEER_ABSENT)

    def close(self) -> None:
        """Close and remove the socket; what is queued is dropped."""
        self._forget(DropReason.PEER_ABSENT)
        self._loop.remove_reader(self._receiver)
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        self._receiver.close()
        self._sender.close()

    def _read(self) -> None:
        for _ in range(_BATCH):
            try:
                frame = self._receiver.recv(_FRAME_BYTES)
            except OSError:
                return
            self._on_frame(self.name, frame)

    def _try(self, frame: bytes) -> bool:
        """Send, or drop if no machine is there; return False if the machine's socket is full."""
        # A restarted machine has a new socket at the same path: the first attempt may be at the old one.
        for _ in range(2):
            if not self.present and not self.connect():
                break
            try:
                self._sender.send(frame)
            except _FULL:
                return False
            except OSError as error:
                self._note(False, str(error.strerror))
                continue
            return True
        self._on_drop(self.name, DropReason.PEER_ABSENT)
        return True

    def _enqueue(self, frame: bytes) -> None:
        if self._queued_bytes + len(frame) > QUEUE_BYTES:
            self._on_drop(self.name, DropReason.PEER_FULL)
            return
        self._queue.append(frame)
        self._queued_bytes += len(frame)

    def _flush(self) -> None:
        """Send what is queued, until the machine's socket is full again."""
        while self._queue:
            if not self._try(self._queue[0]):
                return
            self._queued_bytes -= len(self._queue.popleft())
            if not self.present:
                self._forget(DropReason.PEER_ABSENT)
        self._loop.remove_writer(self._sender)

    def _forget(self, reason: DropReason) -> None:
        """Drop what is queued."""
        self._loop.remove_writer(self._sender)
        while self._queue:
            self._queue.popleft()
            self._on_drop(self.name, reason)
        self._queued_bytes = 0

    def _note(self, present: bool, why: str) -> None:
        if present is not self.present:
            log.info("%s: %s", self.name, "machine present" if present else f"no machine at {self.peer}: {why}")
        self.present = present
