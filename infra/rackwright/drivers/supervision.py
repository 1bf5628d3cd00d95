"""The provider's life: it ends with its engine, and its children end with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

_LOOK_EVERY = 0.5
"""Seconds between looks at the parent: an engine killed by SIGKILL tells nobody."""
_GRACE = 2.0
"""Seconds between asking a child to end and killing it."""
_PATIENCE = 20.0
"""Seconds that a child which may not be interrupted gets to finish; it is never killed for being slow."""


INTERRUPTED = "interrupted before it was finished"
"""Reason of a resource that a cancelled run left unfinished."""


class OperationCancelledError(Exception):
    """The run was asked to stop."""


class Lifetime:
    """Children's process groups, and the watch over the engine that started this process."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._whole: set[int] = set()
        self.cancelled = False

    def adopt(self, group: int, *, whole: bool = False) -> None:
        """A child leads this process group now; a `whole` one is left to finish what it writes, whatever happens."""
        (self._whole if whole else self._groups).add(group)
        if self.cancelled and not whole:
            _signal(group, signal.SIGTERM)

    def release(self, group: int) -> None:
        """The child has ended."""
        self._groups.discard(group)
        self._whole.discard(group)

    async def cancel(self) -> None:
        """Ask every child to end, kill those that do not, and wait for those that may not be interrupted."""
        self.cancelled = True
        for group in tuple(self._groups):
            _signal(group, signal.SIGTERM)
        await _until_empty(self._groups, _GRACE)
        for group in tuple(self._groups):
            _signal(group, signal.SIGKILL)
        await _until_empty(self._whole, _PATIENCE)

    async def watch_parent(self, stop: Callable[[], None]) -> None:
        """Returns once the engine is gone; `stop` then ends the server."""
        parent = os.getppid()
        while os.getppid() == parent:
            await asyncio.sleep(_LOOK_EVERY)
        await self.cancel()
        stop()


current = Lifetime()
"""The life of this process; drivers register their children here."""


def leave_mark() -> None:
    """Create the file by which the `pulumi` of the environment knows that the engine cancelled the run."""
    if mark := os.environ.get("RACKWRIGHT_CANCELLED"):
        with contextlib.suppress(OSError):
            os.close(os.open(mark, os.O_CREAT | os.O_WRONLY, 0o600))


async def _until_empty(groups: set[int], seconds: float) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while groups and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.05)


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
