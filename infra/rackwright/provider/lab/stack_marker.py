"""The label that everything of a lab carries: made before all else, so that a run killed at any moment leaves its name on record.

The engine forgets what it was creating when it was killed; whatever that was is found by this label when the stack is destroyed.
"""

from __future__ import annotations

from typing import ClassVar

from rackwright.drivers import inotify_limits
from rackwright.drivers.podman import sweep
from rackwright.operations import stack_files
from rackwright.provider.protocol.property_values import Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource


class StackMarker(Resource):
    """Inputs: stack. Deleting it removes whatever still carries it, and the stack's files."""

    token: ClassVar[str] = "rackwright:lab:StackMarker"
    required: ClassVar[tuple[str, ...]] = ("stack",)
    replace_on_changes: ClassVar[frozenset[str]] = frozenset({"stack"})

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Nothing to make: being on record is all it is for."""
        return LiveResource(news["stack"], dict(news))

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """The last of the stack to go: afterwards nothing with its label may be left."""
        await sweep(state.inputs["stack"])
        inotify_limits.forget(state.inputs["stack"])
        stack_files.remove(operation.stack)
