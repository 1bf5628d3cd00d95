"""The marker of a lab: created before every other resource, so that the name of a run that is killed at any time is on record.

A killed engine loses the resource that it was creating; destroying the stack finds that resource by this label.
"""

from __future__ import annotations

from typing import ClassVar

from rackwright.drivers import inotify_limits
from rackwright.drivers.podman import sweep
from rackwright.operations import stack_files
from rackwright.provider.protocol.property_values import Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource


class StackMarker(Resource):
    """Inputs: stack. Delete removes everything that still has the label, and the stack's files."""

    token: ClassVar[str] = "rackwright:lab:StackMarker"
    required: ClassVar[tuple[str, ...]] = ("stack",)
    replace_on_changes: ClassVar[frozenset[str]] = frozenset({"stack"})

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Record the stack; there is nothing to create."""
        return LiveResource(news["stack"], dict(news))

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Remove everything that still has the stack's label; this is the last resource of the stack."""
        await sweep(state.inputs["stack"])
        inotify_limits.forget(state.inputs["stack"])
        stack_files.remove(operation.stack)
