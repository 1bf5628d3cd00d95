"""An addon's own part of the Kubernetes bundle: its image, and the objects that it is installed by.

It is a cache shared by all stacks of this user: deleting the resource leaves it.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from rackwright.drivers import bundle
from rackwright.provider.protocol.property_values import UNKNOWN, Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource


class Addon(Resource):
    """Inputs: addon, version, release (of Kubernetes), digest (of what it is built from). Outputs: `folder`."""

    token: ClassVar[str] = "rackwright:kubernetes:Addon"
    required: ClassVar[tuple[str, ...]] = ("addon", "version", "release", "digest")

    def preview_outputs(self, news: Properties) -> Properties:
        """Return the inputs with an unknown path; the builder chooses it."""
        return {**news, "folder": UNKNOWN}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Build the add-on unless it is in the cache."""
        folder = await bundle.ensure_addon(news["addon"], news["version"], news["release"], operation.info, operation.status)
        return LiveResource(operation.name, {**news, "folder": folder})

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """Return the recorded state while the add-on is in the cache, else None."""
        return LiveResource(state.id, state.outputs) if Path(state.outputs["folder"], bundle.CONTENTS).exists() else None

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Build the add-on from the new sources; the old one stays in the cache."""
        return await self.create(operation, news)

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Do nothing: the add-on stays in the cache."""
