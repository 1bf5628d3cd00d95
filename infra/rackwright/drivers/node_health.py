"""Health checks of nodes that drained themselves, outside of Slurm's interval: what was repaired meanwhile is back in service."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from rackwright.drivers import ssh_connections
from rackwright.errors import RackwrightError
from rackwright.inventory.reader import load_document
from rackwright.remote.command import AS_ROOT
from rackwright.time_limits import slowness

PROGRAM: Final = "/usr/local/sbin/rackwright-node-health"
_DRAINED_BY_CHECK: Final = re.compile(r"rackwright: [a-z_]+\.[a-z_]+(:|$)")
"""A drain reason with the id of a check: the node drained itself (rackwright.remote.programs.slurm_node)."""
_REASONS: Final = "sinfo --noheader --Node --format '%N %E'"
"""A line for each node and partition: the node, and the reason why it is out of service (sinfo(1), `none` without one)."""
_QUERY: Final = 15.0
"""Seconds for the controller to respond, longer on a slow machine: slurmctld has MessageTimeout (10 s by default, slurm.conf(5))."""
_LIMIT: Final = 90.0
"""Seconds for the program, which slurmd ends after 60 (slurm.conf(5), HealthCheckProgram); longer on a slow machine."""


async def drained_nodes(stack: str, inventory: Path) -> list[str]:
    """Return the nodes that have drained themselves; none without Slurm, and none if the controller does not respond."""
    controller = _controller(inventory)
    if controller is None:
        return []
    limit = _QUERY * await asyncio.to_thread(slowness)
    with suppress(RackwrightError):
        if await ssh_connections.connect_all(stack, [controller], within=_QUERY):
            return []
        ended = await ssh_connections.run_ssh(stack, controller, _REASONS, timeout=limit)
        found = [line.split(maxsplit=1) for line in ended.stdout.splitlines()] if ended.ok else []
        return sorted({row[0] for row in found if len(row) == 2 and _DRAINED_BY_CHECK.match(row[1])})
    return []


async def check_again(stack: str, nodes: list[str]) -> None:
    """Run the health check on nodes, which resumes those that are as declared. A node that does not respond stays as it is."""
    limit = _LIMIT * await asyncio.to_thread(slowness)

    async def check(name: str) -> None:
        with suppress(RackwrightError):
            await ssh_connections.run_ssh(stack, name, f"{AS_ROOT} {PROGRAM} --now", timeout=limit)

    await asyncio.gather(*map(check, nodes))


def _controller(inventory: Path) -> str | None:
    """Return the first controller of Slurm in the inventory of a stack that is up."""
    if not inventory.is_file():
        return None
    scheduler: dict[str, Any] = load_document(inventory)["all"]["vars"]["cluster"]["scheduler"]
    if scheduler.get("kind") != "slurm" or not scheduler.get("health_interval_s"):
        return None
    return next(iter(scheduler.get("controllers", ())), None)
