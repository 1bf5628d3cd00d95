"""The containers of a stack as they are now, inspected once for all the nodes that the engine compares one after another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from rackwright.drivers.podman import Container, inspect_stack

_FRESH: Final = 2.0
"""Seconds that an inspection is reused."""


class Inspections:
    """The last inspection of each stack; concurrent callers share one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, Mapping[str, Container]]] = {}
        self._turn = asyncio.Lock()

    async def now(self, stack: str) -> Mapping[str, Container]:
        """Return the containers by name."""
        async with self._turn:
            at, found = self._known.get(stack, (0.0, None))
            if found is None or self._clock() - at > _FRESH:
                found = await inspect_stack(stack)
                self._known[stack] = (self._clock(), found)
            return found


_inspections = Inspections()
nodes_now = _inspections.now
"""The inspections of this process."""
