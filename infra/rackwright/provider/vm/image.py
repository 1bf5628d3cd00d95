"""The image of virtual machines. It is a cache shared by all stacks of this user: deleting the resource leaves it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from rackwright.drivers.vm import image_build
from rackwright.inventory import paths
from rackwright.provider.image_lock import image_lock
from rackwright.provider.protocol.property_values import UNKNOWN, Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource


class Image(Resource):
    """Inputs: node_image (name of the node image in local storage). Outputs: `folder`, with kernel and file system."""

    token: ClassVar[str] = "rackwright:vm:Image"
    required: ClassVar[tuple[str, ...]] = ("node_image",)

    def preview_outputs(self, news: Properties) -> Properties:
        """Return the inputs with the folder, which follows from them."""
        return {**news, "folder": UNKNOWN if news["node_image"] == UNKNOWN else str(_folder(news))}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Build the image unless it is in the cache."""
        folder = _folder(news)
        if not image_build.is_complete(folder):
            async with image_lock(operation.info):
                if not image_build.is_complete(folder):
                    await image_build.build(news["node_image"], folder, operation.info)
        return LiveResource(str(folder), {**news, "folder": str(folder)})

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """Return the recorded state while the image is in the cache, else None."""
        return LiveResource(state.id, state.outputs) if image_build.is_complete(Path(state.id)) else None

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Build the image of the new node image; existing machines keep theirs and converge in place."""
        return await self.create(operation, news)

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Do nothing: the image stays in the cache. Disks of other stacks' machines are based on it."""


def _folder(news: Properties) -> Path:
    return paths.machine_images() / image_build.name(news["node_image"])
