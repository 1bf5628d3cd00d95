"""The boards of a running stack in the browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rackwright.catalog.alerts import Part
from rackwright.catalog.boards import boards_of
from rackwright.catalog.checks import Feature
from rackwright.inventory.reader import Inventory
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.monitor.connection import connect
from rackwright.operations.monitor.server import Addresses, BoardServer
from rackwright.report.boards.page import page_files

_PARTS = {
    Feature.GPUS: Part.GPUS,
    Feature.SLURM: Part.SLURM,
    Feature.KUBERNETES: Part.KUBERNETES,
    Feature.ACCOUNTING: Part.ACCOUNTING,
    Feature.STORAGE: Part.STORAGE,
    Feature.FABRIC: Part.FABRIC,
    Feature.INFINIBAND: Part.INFINIBAND,
}


@dataclass(frozen=True, slots=True)
class BoardSession:
    """A server that is ready, and the node that it reads."""

    node: str
    server: BoardServer

    @property
    def addresses(self) -> Addresses:
        """Return the URLs."""
        return self.server.addresses

    def serve(self) -> None:
        """Serve until KeyboardInterrupt; raise UndeterminedError if the session with the node is lost."""
        self.server.serve()


@contextmanager
def open_boards(stack: str, port: int) -> Iterator[BoardSession]:
    """Connect to the monitoring node and listen on a local port, 0 for a free one. At the end both are closed.

    Raises InputError if the stack is not up or has no Prometheus, or if the port is in use; UndeterminedError without a connection.
    """
    running = RunningStack.of(stack)
    with connect(running) as relay:
        files = page_files(stack, running.inventory.monitoring or {}, boards_of(parts_of(running.inventory)))
        with BoardServer(relay, files, port) as server:
            yield BoardSession(relay.node, server)


def parts_of(inventory: Inventory) -> frozenset[Part]:
    """Return the parts of a running stack with a Prometheus of its own that panels may need."""
    found = {part for feature, part in _PARTS.items() if feature in inventory.features}
    return frozenset({Part.PROMETHEUS} | found | ({Part.OWN_KERNEL} if inventory.cluster["manage_kernel"] else set()))
