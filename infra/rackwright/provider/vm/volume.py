"""A disk of a virtual machine: data that outlives the machine."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from rackwright.drivers.vm import disks
from rackwright.inventory import paths
from rackwright.provider.protocol.property_values import Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource


class Volume(Resource):
    """Inputs: stack, name, size_mib. Outputs: the same, `file` on this machine, and `device`, its name in the guest."""

    token: ClassVar[str] = "rackwright:vm:Volume"
    required: ClassVar[tuple[str, ...]] = ("stack", "name", "size_mib")
    replace_on_changes: ClassVar[frozenset[str]] = frozenset({"stack", "name"})

    def preview_outputs(self, news: Properties) -> Properties:
        """Return the inputs with file and device, which follow from the name."""
        return {**news, "file": str(_file(news)), "device": disks.device(news["name"])}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Create the file; adopt one from a killed run with its data."""
        disks.ensure(_file(news), int(news["size_mib"]))
        return LiveResource(news["name"], self.preview_outputs(news))

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """Return the recorded state while the file exists, else None."""
        return LiveResource(state.id, state.outputs) if Path(state.outputs["file"]).is_file() else None

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Extend the file. The guest sees the new size at its next start."""
        return await self.create(operation, news)

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Remove the file and its data."""
        Path(state.outputs["file"]).unlink(missing_ok=True)


def _file(news: Properties) -> Path:
    return paths.machines(news["stack"]) / "volumes" / f"{news['name']}.raw"
