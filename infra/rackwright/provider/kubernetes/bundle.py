"""The bundle of Kubernetes binaries and images that `tools/kubernetes` builds, for clusters without a repository or a registry.

All stacks of the user share the bundle as a cache: deleting the resource leaves it.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from rackwright.drivers import bundle
from rackwright.provider.protocol.property_values import UNKNOWN, Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource


class Bundle(Resource):
    """Inputs: version, digest (of what it is built from), extras (parts that only some clusters need). Outputs: `folder`."""

    token: ClassVar[str] = "rackwright:kubernetes:Bundle"
    required: ClassVar[tuple[str, ...]] = ("version", "digest")

    def preview_outputs(self, news: Properties) -> Properties:
        """Return the inputs with an unknown path; the builder chooses it."""
        return {**news, "folder": UNKNOWN}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Build the bundle unless it is in the cache."""
        folder = await bundle.ensure_bundle(news["version"], news.get("extras") or [], operation.info, operation.status)
        return LiveResource(operation.name, {**news, "folder": folder})

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """Return the recorded state while the bundle is in the cache, else None."""
        parts = ["", *(state.outputs.get("extras") or [])]
        there = all(Path(state.outputs["folder"], part, bundle.CONTENTS).exists() for part in parts)
        return LiveResource(state.id, state.outputs) if there else None

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Build the bundle from the new sources; the old one stays in the cache."""
        return await self.create(operation, news)

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Do nothing: the bundle stays in the cache."""
