"""A lab volume: data that outlives the container it is mounted in."""

from __future__ import annotations

from typing import ClassVar

from rackwright.drivers.podman import STACK_LABEL, must, podman
from rackwright.provider.protocol.property_values import Properties
from rackwright.provider.protocol.resource import Made, Operation, Resource, State


class Volume(Resource):
    """Inputs: stack, name."""

    token: ClassVar[str] = "rackwright:lab:Volume"
    required: ClassVar[tuple[str, ...]] = ("stack", "name")
    replace_on: ClassVar[frozenset[str]] = frozenset({"stack", "name"})

    async def create(self, operation: Operation, news: Properties) -> Made:
        """Create the volume; one left by a run that died is adopted with its data."""
        if not (await podman("volume", "exists", news["name"])).ok:
            await must("volume", "create", "--label", f"{STACK_LABEL}={news['stack']}", news["name"])
        return Made(news["name"], dict(news))

    async def read(self, operation: Operation, state: State) -> Made | None:
        """Whether it is there."""
        return Made(state.id, state.outputs) if (await podman("volume", "exists", state.id)).ok else None

    async def delete(self, operation: Operation, state: State) -> None:
        """Remove the volume and its data."""
        await podman("volume", "rm", "--force", state.id)
