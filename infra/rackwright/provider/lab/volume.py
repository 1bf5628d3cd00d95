"""A lab volume: data that outlives the container it is mounted in."""

from __future__ import annotations

from typing import ClassVar

from rackwright.drivers.podman import STACK_LABEL, podman, run_checked
from rackwright.provider.protocol.property_values import Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource


class Volume(Resource):
    """Inputs: stack, name."""

    token: ClassVar[str] = "rackwright:lab:Volume"
    required: ClassVar[tuple[str, ...]] = ("stack", "name")
    replace_on_changes: ClassVar[frozenset[str]] = frozenset({"stack", "name"})

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Create the volume; adopt one from a killed run with its data."""
        if not (await podman("volume", "exists", news["name"])).ok:
            await run_checked("volume", "create", "--label", f"{STACK_LABEL}={news['stack']}", news["name"])
        return LiveResource(news["name"], dict(news))

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """Return the recorded state while the volume exists, else None."""
        return LiveResource(state.id, state.outputs) if (await podman("volume", "exists", state.id)).ok else None

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Remove the volume and its data."""
        await podman("volume", "rm", "--force", state.id)
