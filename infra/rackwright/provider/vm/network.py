"""The network of a stack's virtual machines: one process with all switches, ports and cables."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path
from typing import ClassVar, Final

from rackwright.drivers.vm.network import client, topology
from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.provider.protocol.diff import DiffResult
from rackwright.provider.protocol.property_values import UNKNOWN, Properties
from rackwright.provider.protocol.resource import CheckFailure, LiveResource, RecordedState, RequestContext, Resource

_RUNNING: Final = "running"
_STOPPED: Final = "stopped"


class Network(Resource):
    """Inputs: stack, topology (JSON text), program (digest of the process's code).

    Outputs: the same, `folder`, `revision` (new with every change and repair), and `status`: `running`, `stopped`, or the differences.
    """

    token: ClassVar[str] = "rackwright:vm:Network"
    required: ClassVar[tuple[str, ...]] = ("stack", "topology", "program")
    replace_on_changes: ClassVar[frozenset[str]] = frozenset({"stack"})

    def check(self, news: Properties) -> list[CheckFailure]:
        """Return a failure for a topology that is not valid."""
        found = super().check(news)
        if news.get("topology") not in (None, UNKNOWN):
            try:
                topology.parse(json.loads(news["topology"]))
            except (RackwrightError, ValueError) as error:
                found.append(CheckFailure("topology", str(error)))
        return found

    def apply_defaults(self, news: Properties) -> Properties:
        """Add the status of a declared network."""
        return {**news, "status": _RUNNING}

    async def add_live_changes(self, stack: str, state: RecordedState, found: DiffResult) -> DiffResult:
        """Add `status` where the process has ended since the last run, or runs with a fault, such as a pulled cable."""
        if found.changes or await asyncio.to_thread(_status, _folder(state.inputs)) == _RUNNING:
            return found
        return found.with_change("status")

    def preview_outputs(self, news: Properties) -> Properties:
        """Return the inputs with the folder. The revision is unknown, so that a preview shows that the checks run again."""
        return {**news, "folder": str(_folder(news)), "revision": UNKNOWN}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Start the process, or change the one that a killed run left."""
        folder = _folder(news)
        await asyncio.to_thread(client.apply, folder, topology.parse(json.loads(news["topology"])))
        return LiveResource(str(folder), {**news, "folder": str(folder), "revision": uuid.uuid4().hex})

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """Return the network as it runs. Differences from the declared one, such as a pulled cable, are in `status`."""
        folder = Path(state.id)
        if not folder.is_dir():
            return None
        status = await asyncio.to_thread(_status, folder)
        return LiveResource(state.id, {**state.outputs, "status": status}, inputs={**state.inputs, "status": status})

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Bring the running network to the declared one; machines keep running. Newer code needs a new process."""
        if state.inputs.get("program") != news["program"]:
            await asyncio.to_thread(client.stop, _folder(news))
        return await self.create(operation, news)

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Stop the process."""
        await asyncio.to_thread(client.stop, Path(state.id))


def _status(folder: Path) -> str:
    if client.running(folder) is None:
        return _STOPPED
    found = client.status(folder)["differences"]
    return "; ".join(f"{row['name']}: {row['property']} {row['live']}, declared {row['declared']}" for row in found) or _RUNNING


def _folder(inputs: Properties) -> Path:
    return paths.machines(inputs["stack"]) / "network"
