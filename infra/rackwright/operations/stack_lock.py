"""One writer per stack: a lock file in the state directory, held as long as the process lives."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from typing import Final

from rackwright.errors import RackwrightError, UndeterminedError
from rackwright.inventory import paths

_PATIENCE: Final = 10.0
"""Seconds: an orphaned provider detects its engine's death within half a second and ends its children within two more."""


@contextlib.asynccontextmanager
async def locked(stack: str) -> AsyncIterator[None]:
    """Hold the stack's lock inside the context, for a command that only reads; raise UndeterminedError if another run holds it."""
    lock = StackLock(stack)
    try:
        await lock.hold()
    except RackwrightError as error:
        raise UndeterminedError(error.cause, hint=error.hint) from None
    try:
        yield
    finally:
        lock.release()


class StackLock:
    """An advisory lock that the kernel releases when the holder ends, for any reason."""

    def __init__(self, stack: str) -> None:
        self._stack = stack
        self._descriptor: int | None = None
        self._turn = asyncio.Lock()

    async def hold(self) -> None:
        """Acquire the lock; raise if another run holds it."""
        async with self._turn:
            if self._descriptor is None:
                self._descriptor = await self._acquire()

    def release(self) -> None:
        """Release the lock; do nothing if it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    async def _acquire(self) -> int:
        path = paths.lock_file(self._stack)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if asyncio.get_running_loop().time() > deadline:
                    holder = os.pread(descriptor, 32, 0).decode().strip()
                    os.close(descriptor)
                    raise RackwrightError(
                        f"stack {self._stack}: another run is changing it (process {holder or 'unknown'})",
                        hint="wait for it to end, or end that process, then run the command again",
                    ) from None
                await asyncio.sleep(0.2)
            else:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                return descriptor
