"""The marker of a stack of virtual machines: created before every other resource, so that the name of a run that is killed is on record."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from rackwright.drivers.vm import sweep
from rackwright.inventory import paths
from rackwright.operations import stack_files
from rackwright.provider.protocol.property_values import Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource


class StackMarker(Resource):
    """Inputs: stack. Delete stops and removes everything in the stack's machines folder, and the stack's files."""

    token: ClassVar[str] = "rackwright:vm:StackMarker"
    required: ClassVar[tuple[str, ...]] = ("stack",)
    replace_on_changes: ClassVar[frozenset[str]] = frozenset({"stack"})

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Record the stack; there is nothing to create."""
        return LiveResource(news["stack"], dict(news))

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Remove what a killed run left; this is the last resource of the stack."""
        await asyncio.to_thread(sweep.remove_all, paths.machines(state.inputs["stack"]))
        stack_files.remove(operation.stack)
