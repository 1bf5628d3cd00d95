"""Kill a node of this machine and start it again: a container of target lab, or a machine of target vm.

The kernel of this machine resets the connections of a killed container. A node without power resets none, and is noticed later.
"""

from __future__ import annotations

import asyncio
from typing import Final

from rackwright.drivers import podman, ssh_connections
from rackwright.drivers.vm import machine
from rackwright.inventory import paths

TARGETS: Final = ("lab", "vm")
"""Targets whose nodes this machine runs."""


async def kill(stack: str, target: str, node: str) -> None:
    """End all processes of a node at once. Raises RackwrightError with the reason."""
    if target == "lab":
        await podman.run_checked("kill", "--signal", "KILL", f"{stack}-{node}")
    else:
        await asyncio.to_thread(machine.stop, paths.machine(stack, node))


async def start(stack: str, target: str, node: str) -> None:
    """Start a node that was killed. Raises RackwrightError with the reason."""
    if target == "lab":
        await podman.run_checked("start", f"{stack}-{node}")
    else:
        await asyncio.to_thread(machine.start, paths.machine(stack, node))
    await ssh_connections.close(stack, node)  # a connection from before would hang
