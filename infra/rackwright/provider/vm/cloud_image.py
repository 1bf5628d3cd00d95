"""A vendor's disk image of virtual machines. It is a cache shared by all stacks of this user: deleting the resource leaves it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from rackwright.drivers.vm import cloud_image
from rackwright.inventory import paths
from rackwright.provider.image_lock import image_lock
from rackwright.provider.protocol.property_values import Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource


class CloudImage(Resource):
    """Inputs: file (path on this machine) and digest. Outputs: `folder`, with a copy of the file."""

    token: ClassVar[str] = "rackwright:vm:CloudImage"
    required: ClassVar[tuple[str, ...]] = ("file", "digest")

    def preview_outputs(self, news: Properties) -> Properties:
        """Return the inputs with the folder, which follows from the digest."""
        return {**news, "folder": str(_folder(news))}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Copy the image unless it is in the cache."""
        folder = _folder(news)
        if not cloud_image.is_complete(folder):
            async with image_lock(operation.info):
                if not cloud_image.is_complete(folder):
                    await operation.info(f"cloud image: copying {news['file']} into the cache")
                    await asyncio.to_thread(cloud_image.copy, Path(news["file"]).expanduser(), news["digest"], folder)
        return LiveResource(str(folder), {**news, "folder": str(folder)})

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """Return the recorded state while the image is in the cache, else None."""
        return LiveResource(state.id, state.outputs) if cloud_image.is_complete(Path(state.id)) else None

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Copy the new image; existing machines keep theirs."""
        return await self.create(operation, news)

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Do nothing: the image stays in the cache. Disks of other stacks' machines are based on it."""


def _folder(news: Properties) -> Path:
    return paths.machine_images() / cloud_image.name(news["digest"])
