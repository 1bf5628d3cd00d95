"""Pause all processes of a node of this machine, and continue them: a container of target lab."""

from __future__ import annotations

from rackwright.drivers import podman, ssh_connections
from rackwright.errors import RackwrightError


async def pause(stack: str, node: str) -> None:
    """Suspend all processes of a node. Raises RackwrightError with the reason."""
    await podman.run_checked("pause", f"{stack}-{node}")


async def resume(stack: str, node: str) -> None:
    """Continue a node; do nothing if it is not paused. Raises RackwrightError with the reason."""
    found = await podman.inspect(f"{stack}-{node}")
    if found is None:
        raise RackwrightError("the container is gone", path=node, hint=f"run `rackwright up {stack}`")
    if found.paused:
        await podman.run_checked("unpause", f"{stack}-{node}")
    await ssh_connections.close(stack, node)  # a connection from before may hang
