"""A node of this machine that loses its power, and is started again: containers of target lab, machines of target vm."""

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
        await asyncio.to_thread(machine.stop, paths.machines(stack) / node)


async def start(stack: str, target: str, node: str) -> None:
    """Start a node that was killed. Raises RackwrightError with the reason."""
    if target == "lab":
        await podman.run_checked("start", f"{stack}-{node}")
    else:
        await asyncio.to_thread(machine.start, paths.machines(stack) / node)
    await ssh_connections.close(stack, node)  # a connection from before would hang
