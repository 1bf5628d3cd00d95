"""The process: its lock, its sockets, its timer, and how it ends.

It holds the folder by a lock on the directory, which the kernel releases with the process, so that two never bind the same sockets.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import signal
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from rackwright.drivers.vm.network import topology as topologies
from rackwright.drivers.vm.network.control import SOCKET, Control
from rackwright.drivers.vm.network.forwarding import Delivery, Network
from rackwright.drivers.vm.network.links import DropReason
from rackwright.drivers.vm.network.sockets import PortSocket
from rackwright.errors import RackwrightError
from rackwright.files import write_atomic
from rackwright.processes import start_time

PROCESS_FILE: Final = "process.json"
_FOLDER_POLL: Final = 30.0
"""Seconds between two tests of whether the folder still exists: a process that no client can find must end. Chosen: rare enough to cost
nothing."""
log = logging.getLogger("rackwright.vm.network")


def lock_folder(folder: Path) -> int:
    """Return the descriptor that holds the folder. Raises RackwrightError if another process holds it or if it is missing."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise RackwrightError(f"the folder cannot be opened: {error.strerror}", path=str(folder), hint="run `pulumi up`") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        hint = f"reload it, or stop it first: its process ID is in {PROCESS_FILE}"
        raise RackwrightError("another process runs this network", path=str(folder), hint=hint) from None
    return descriptor


def remove_sockets() -> None:
    """Remove the sockets in the working directory that an earlier process left."""
    for path in Path().glob("*.sock"):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()


class Service:
    """Forwards frames between the sockets of the working directory, which is the locked folder, until `stopped` is set."""

    def __init__(self, folder: Path, descriptor: int) -> None:
        self.folder, self._descriptor = folder, descriptor
        self.stopped = asyncio.Event()
        self.topology = topologies.read(Path())
        self.network = Network(self.topology)
        self.sockets: dict[str, PortSocket] = {}
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    async def run(self, on_ready: asyncio.Event | None = None) -> None:
        """Run until SIGTERM, SIGINT, the command `stop`, or the removal of the folder."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self.stopped.set)
        remove_sockets()
        server = None
        try:
            self._open_sockets()
            server = await asyncio.start_unix_server(Control(self).serve, SOCKET)
            pid = os.getpid()
            write_atomic(Path(PROCESS_FILE), json.dumps({"pid": pid, "since": start_time(pid)}) + "\n", mode=0o600)
            if on_ready:
                on_ready.set()
            while not self.stopped.is_set() and self.is_known():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.stopped.wait(), _FOLDER_POLL)
        finally:
            # Not `async with server`: from Python 3.12 on it waits until the last client has closed its connection.
            if server:
                server.close()
            self._close()

    def is_known(self) -> bool:
        """Return whether the folder is still at its path."""
        with suppress(OSError):
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self.folder))
        return False

    def set_fault(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change a link or switch until the next reload that clears faults."""
        now = self._loop.time()
        self._deliver(self.network.advance(now))
        self.network.set_fault(name, changes, now)
        self._schedule()

    def reload(self, *, clear_faults: bool) -> None:
        """Apply topology.json. Raises InputError if it is invalid; the network stays as it was."""
        self.topology = topologies.read(Path())
        now = self._loop.time()
        self._deliver(self.network.advance(now))
        if clear_faults:
            self.network.clear_faults(now)
        self.network.load(self.topology, now)
        self._open_sockets()
        self._schedule()
        log.info("reloaded: %d ports, %d cables", len(self.topology.ports), len(self.topology.cables))

    def _open_sockets(self) -> None:
        """Open the sockets of new ports, close those of removed ones."""
        peers = {port.name: port.peer for port in self.topology.ports}
        for name in [name for name in self.sockets if name not in peers]:
            self.sockets.pop(name).close()
        for name, peer in peers.items():
            if name in self.sockets:
                self.sockets[name].move(peer)
            else:
                self.sockets[name] = PortSocket(name, peer, self._receive, self._count_drop)

    def _receive(self, port: str, frame: bytes) -> None:
        self._deliver(self.network.receive(port, frame, self._loop.time()))
        self._schedule()

    def _advance(self) -> None:
        self._timer = None
        self._deliver(self.network.advance(self._loop.time()))
        self._schedule()

    def _deliver(self, deliveries: list[Delivery]) -> None:
        for port, frame in deliveries:
            if port in self.sockets:
                self.sockets[port].send(frame)

    def _schedule(self) -> None:
        """Set the timer for the next frame; none is set while no frame is on its way."""
        due = self.network.next_due()
        if self._timer is not None and (due is None or self._timer.when() > due):
            self._timer.cancel()
            self._timer = None
        if due is not None and self._timer is None:
            self._timer = self._loop.call_at(due, self._advance)

    def _count_drop(self, port: str, reason: DropReason) -> None:
        if port in self.network.ports:
            self.network.ports[port].outward.counters.drop(reason)

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for opened in self.sockets.values():
            opened.close()
        for file in (SOCKET, PROCESS_FILE):
            with suppress(OSError):
                os.unlink(file)
