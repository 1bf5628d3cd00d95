"""The image that pods of a demo need, on each worker before the job starts."""

from __future__ import annotations

import asyncio
from typing import Final

from rackwright.drivers import remote_exec, ssh_connections
from rackwright.errors import InputError
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.demo.prerequisites import TrainingSite
from rackwright.time_limits import slowness

_REACH: Final = 10.0
"""Seconds for connecting to a node, as for the processes of jobs."""
_LIST: Final = 10.0
"""Seconds in which containerd lists its images. Chosen; it reads one file of metadata."""
_MARGIN: Final = 20.0
"""Seconds beyond it, for the start of Python on the node."""


async def require_images(running: RunningStack, site: TrainingSite) -> list[str]:
    """Return a remark for each worker that will pull the image, or whose images could not be read. On Slurm there is no image.

    Raises InputError for a worker without an image of the bundle, which no registry has: its pods would wait until the job gives up.
    """
    if site.pods is None:
        return []
    image, bundled = site.pods.image, bool(running.inventory.cluster["scheduler"].get("bundles_training_image"))
    lost = await ssh_connections.connect_all(running.name, site.workers, within=_REACH)
    requests = {name: {"image": image, "seconds": _LIST} for name in site.workers if name not in lost}
    sudo = {name: running.inventory.needs_sudo(name) for name in requests}
    limit = (_LIST + _MARGIN) * await asyncio.to_thread(slowness)
    found, failed = await remote_exec.run_on_nodes(
        running.name, "node_images", requests, sudo, target=running.inventory.target, limit=limit
    )
    reasons = {**lost, **failed, **{name: str(one["error"]) for name, one in found.items() if one["error"]}}
    without = [name for name in site.workers if name not in reasons and not found[name]["present"]]
    if without and bundled:
        hint = f"run `rackwright up {running.name}`, which imports the image on each worker"
        causes = [f"{name} has {found[name]['images']} images, and not {image} (expected it on each worker)" for name in without]
        raise InputError("\n".join(causes), path=f"stack {running.name}", hint=hint)
    return [
        *(f"{name}: does not have {image}; its kubelet pulls it first, which is part of the run's time" for name in without),
        *(f"{name}: whether it has {image} is unknown: {why}" for name, why in reasons.items()),
    ]
