"""Wait until nothing keeps the package manager of a node busy, with progress and for a limited time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible.utils.display import Display

PROGRESS = "rackwright progress: "
"""First words of a displayed line that the converge driver shows as progress (rackwright.drivers.ansible_child)."""
TIMEOUT = 600.0
"""Seconds to wait at most. A first boot with upgrades takes minutes, and unattended-upgrades as long as its packages. Chosen."""
PAUSE = 5.0
"""Seconds between two queries of the node."""

Query = Callable[[], Mapping[str, Any]]


def wait_until_idle(
    host: str,
    query: Query,
    *,
    timeout: float = TIMEOUT,
    say: Callable[[str], object] | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[float, str]:
    """Return the seconds waited, and why waiting ended without success; that is empty if the node is idle.

    `query` returns the result of the module rackwright.cluster.busy_facts. A query that fails ends the waiting: what follows reports it.
    """
    tell = say or Display().display
    began = clock()
    while True:
        found = query()
        waited = clock() - began
        if found.get("failed") or found.get("unreachable") or not found.get("busy"):
            return waited, ""
        if waited >= timeout:
            return waited, f"{found['busy']} has not ended after {waited:.0f} s ({found['detail']}) - look at {found['hint']}"
        tell(f"{PROGRESS}{host}: waits for {found['busy']}, {waited:.0f} s ({found['detail']})")
        sleep(PAUSE)
