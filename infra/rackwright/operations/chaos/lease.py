"""What this machine did to a node for a time: a lease with a deadline, which several processes may end, and one does.

A killed or paused node cannot undo that itself. The lease is written before the failure. The command ends it in time; if the command was
killed, its watchdog does at the deadline (watchdog.py), and after a restart of this machine the next command of the stack.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from rackwright.drivers import node_kill, node_pause
from rackwright.errors import RackwrightError
from rackwright.files import write_atomic
from rackwright.inventory import paths
from rackwright.processes import start_time

_OPEN, _ENDED = ".lease.json", ".ended.json"
SETTLES: Final = 20.0
"""Seconds after which the commands of podman of a killed process have ended, so that none stops the node after its start.
Chosen: the time for which a killed node is off."""
_POLL: Final = 0.2
"""Seconds between two attempts to get the lock of leases."""


class Undo(StrEnum):
    """How a lease is ended."""

    START = "start"
    RESUME = "resume"


@dataclass(frozen=True)
class Lease:
    """A node that this machine killed or paused."""

    id: str
    stack: str
    target: str
    """Target of the stack: lab or vm."""
    node: str
    undo: Undo
    deadline: float
    """Time after which every process may end it, in seconds since 1970."""
    granted: float
    """Time at which it was written."""
    pid: int
    """Process that injected the failure, with its start time."""
    since: int

    @property
    def is_due(self) -> bool:
        """Return whether the deadline has passed, or the process that would end the lease has exited."""
        now = time.time()
        return now >= self.deadline or (now >= self.granted + SETTLES and start_time(self.pid) != self.since)


def grant(stack: str, target: str, node: str, undo: Undo, id_: str, deadline: float) -> Lease:
    """Write a lease of this process and return it."""
    lease = Lease(id_, stack, target, node, undo, deadline, time.time(), os.getpid(), start_time(os.getpid()) or 0)
    folder = paths.chaos_leases(stack)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(folder / f"{id_}{_OPEN}", json.dumps(asdict(lease)) + "\n", 0o600)
    return lease


def open_leases(stack: str) -> list[Lease]:
    """Return the leases that no process has ended, by id. Raises RackwrightError for a file that is no lease."""
    return [lease for file in sorted(paths.chaos_leases(stack).glob(f"*{_OPEN}")) if (lease := _read(file)) is not None]


def ended(stack: str, id_: str) -> dict[str, Any] | None:
    """Return `at` and `by` of a lease that was ended, or None."""
    try:
        found: dict[str, Any] = json.loads((paths.chaos_leases(stack) / f"{id_}{_ENDED}").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


async def end(lease: Lease, by: str) -> bool:
    """Undo what a lease stands for and delete it; return False if another process did.

    Raises RackwrightError if the node does not start.
    """
    file = paths.chaos_leases(lease.stack) / f"{lease.id}{_OPEN}"
    async with _locked(lease.stack):
        if not file.exists():
            return False
        if lease.undo is Undo.START:
            await node_kill.start(lease.stack, lease.target, lease.node)
        else:
            await node_pause.resume(lease.stack, lease.node)
        write_atomic(file.with_name(f"{lease.id}{_ENDED}"), json.dumps({"at": time.time(), "by": by}) + "\n", 0o600)
        file.unlink()
    return True


async def end_due(stack: str, by: str, say: Callable[[str], None]) -> list[Lease]:
    """End all leases that are due; return them. Raises RackwrightError if a node does not start."""
    due = [lease for lease in open_leases(stack) if lease.is_due]
    return [lease for lease in due if await _end_and_say(lease, by, say)]


def end_due_before(stack: str, by: str, say: Callable[[str], None]) -> None:
    """End all leases that are due, before a command that expects the nodes to run. Does nothing for a stack without leases."""
    if next(iter(paths.chaos_leases(stack).glob(f"*{_OPEN}")), None) is not None:
        asyncio.run(end_due(stack, by, say))


async def _end_and_say(lease: Lease, by: str, say: Callable[[str], None]) -> bool:
    is_ended = await end(lease, by)
    if is_ended:
        say(f"{lease.node}: {'started' if lease.undo is Undo.START else 'continued'} again, since event {lease.id} had not been undone")
    return is_ended


def _read(file: Path) -> Lease | None:
    """Return a lease, or None if it was ended meanwhile."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return Lease(**{**found, "undo": Undo(found["undo"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        hint = "start or continue the node by hand (`podman start`, `podman unpause`), then delete the file"
        raise RackwrightError(f"is no lease: {error!r}", path=str(file), hint=hint) from None


@contextlib.asynccontextmanager
async def _locked(stack: str) -> Any:
    """Hold the lock of a stack's leases; the kernel releases it when the holder exits."""
    descriptor = os.open(paths.chaos_leases(stack) / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_POLL)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def only_command(stack: str) -> Iterator[None]:
    """Hold the lock of the one command that may inject failures. Raises RackwrightError if another one does."""
    folder = paths.chaos(stack)
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RackwrightError(
                "another command injects failures", path=f"stack {stack}", hint="wait for its end, or interrupt it"
            ) from None
        yield
    finally:
        os.close(descriptor)
