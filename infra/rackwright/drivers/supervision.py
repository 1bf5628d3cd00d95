"""Supervision of the provider process. The process exits with its engine, and its children exit with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

_POLL_SECONDS = 0.5
"""Seconds between reads of the parent: an engine killed by SIGKILL sends no message."""
_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL for a child."""
_PATIENCE = 20.0
"""Seconds for an uninterruptible child to finish. A slow child is not killed earlier."""


INTERRUPTED = "interrupted before it was finished"
"""Reason of a resource that a cancelled run left unfinished."""


class OperationCancelledError(Exception):
    """The run was cancelled."""


class Lifetime:
    """Children's process groups, and the supervision of the engine that started this process."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._whole: set[int] = set()
        self.cancelled = False

    def adopt(self, group: int, *, whole: bool = False) -> None:
        """Register a child that leads this process group; a `whole` one always finishes its writes."""
        (self._whole if whole else self._groups).add(group)
        if self.cancelled and not whole:
            _signal(group, signal.SIGTERM)

    def release(self, group: int) -> None:
        """Unregister a child that has exited."""
        self._groups.discard(group)
        self._whole.discard(group)

    async def cancel(self) -> None:
        """Terminate every child, kill those that remain, and wait for those that must finish."""
        self.cancelled = True
        for group in tuple(self._groups):
            _signal(group, signal.SIGTERM)
        await _until_empty(self._groups, _GRACE)
        for group in tuple(self._groups):
            _signal(group, signal.SIGKILL)
        await _until_empty(self._whole, _PATIENCE)

    async def watch_parent(self, stop: Callable[[], None]) -> None:
        """Wait until the engine has exited, then call `stop` to end the server."""
        parent = os.getppid()
        while os.getppid() == parent:
            await asyncio.sleep(_POLL_SECONDS)
        await self.cancel()
        stop()


current = Lifetime()
"""The lifetime of this process; drivers register their children here."""


def leave_mark() -> None:
    """Create the file by which the `pulumi` of the environment detects that the engine cancelled the run."""
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
