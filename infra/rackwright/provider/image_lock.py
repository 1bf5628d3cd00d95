"""One image build at a time: two runs of different stacks would remove each other's build container, which has the image's name."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from rackwright.inventory import paths

_INTERVAL: Final = 0.5
"""Seconds between two attempts to take the lock. Chosen: short beside a build, which takes minutes."""


@asynccontextmanager
async def image_lock(info: Callable[[str], Awaitable[None]]) -> AsyncIterator[None]:
    """Hold the lock of image builds; wait for a run that holds it. The kernel releases the lock of a killed run."""
    lock = paths.image_lock()
    lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _take(descriptor):
            await info("waiting for the image build of another run")
            while not _take(descriptor):
                await asyncio.sleep(_INTERVAL)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
