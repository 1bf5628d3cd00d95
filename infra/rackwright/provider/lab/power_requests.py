"""Requests of Slurm's power saving, as its programs write them on the controller: the wanted state, and what is allowed.

Requests come from inside the cluster: names must be in the plan, and no link on the path to them is followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from rackwright.drivers.podman import NODE_LABEL, STACK_LABEL, Container

ACTIONS: Final = ("resume", "suspend")
FOLDER: Final = ("var", "lib", "rackwright", "power")
"""roles/slurm_controller/README.md, "Power saving"."""


@dataclass(frozen=True)
class Request:
    """One request file: the wanted state of a node, and the time of the request (ns since 1970)."""

    action: str
    node: str
    requested_ns: int


@contextmanager
def opened(root: str, *parts: str) -> Iterator[int]:
    """Open a folder below `root` without following links: the cluster's root user may have placed one anywhere."""
    found = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=found)
            os.close(found)
            found = below
        yield found
    finally:
        os.close(found)


def requests(root: str, nodes: Collection[str]) -> list[Request]:
    """Return the latest request for each of these nodes; ignore every other file."""
    found: dict[str, Request] = {}
    for action in ACTIONS:
        with suppress(FileNotFoundError), opened(root, *FOLDER, action) as folder:
            for node in set(os.listdir(folder)).intersection(nodes):
                status = os.stat(node, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and (node not in found or status.st_mtime_ns > found[node].requested_ns):
                    found[node] = Request(action, node, status.st_mtime_ns)
    return sorted(found.values(), key=lambda request: (request.action, request.node))


def settle(root: str, request: Request) -> None:
    """Remove a fulfilled request, unless it has been renewed meanwhile."""
    with suppress(FileNotFoundError), opened(root, *FOLDER, request.action) as folder:
        if os.stat(request.node, dir_fd=folder, follow_symlinks=False).st_mtime_ns == request.requested_ns:
            os.unlink(request.node, dir_fd=folder)


def refusal(stack: str, node: str, found: Container | None) -> str | None:
    """Return why a container must not be touched, or None when it is this stack's container of that node."""
    if found is None:
        return "there is no such container"
    if (found.labels.get(STACK_LABEL), found.labels.get(NODE_LABEL)) != (stack, node):
        return "its labels are not those of the node"
    return "it is paused" if found.paused else None


def is_met(request: Request, found: Container) -> bool:
    """Return whether the request is fulfilled. A node must have started after a power-up request, since Slurm waits for a boot."""
    if request.action == "suspend":
        return not found.running
    return found.running and datetime.fromisoformat(found.started_at).timestamp() * 1e9 >= request.requested_ns
