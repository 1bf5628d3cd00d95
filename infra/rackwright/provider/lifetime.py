"""The provider's life: it ends with its engine, and its children end with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

_LOOK_EVERY = 0.5
"""Seconds between looks at the parent: an engine killed by SIGKILL tells nobody."""


class Cancelled(Exception):
    """The run was asked to stop."""


class Lifetime:
    """Children's process groups, and the watch over the engine that started this process."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self.cancelled = False

    def adopt(self, group: int) -> None:
        """A child leads this process group now."""
        self._groups.add(group)
        if self.cancelled:
            _signal(group, signal.SIGTERM)

    def release(self, group: int) -> None:
        """The child has ended."""
        self._groups.discard(group)

    async def cancel(self) -> None:
        """Ask every child to end; those still there after two seconds are killed."""
        self.cancelled = True
        for group in tuple(self._groups):
            _signal(group, signal.SIGTERM)
        for _ in range(20):
            if not self._groups:
                return
            await asyncio.sleep(0.1)
        for group in tuple(self._groups):
            _signal(group, signal.SIGKILL)

    async def watch_parent(self, stop: Callable[[], None]) -> None:
        """Returns once the engine is gone; `stop` then ends the server."""
        parent = os.getppid()
        while os.getppid() == parent:
            await asyncio.sleep(_LOOK_EVERY)
        await self.cancel()
        stop()


current = Lifetime()
"""The life of this process; drivers register their children here."""


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
