"""The lab's node image: a Debian base with the roles' own install steps baked in, named by the digest of what went into it.

It is a cache shared by all stacks of this user: deleting the resource leaves it, `rackwright down --images` removes it.
"""

from __future__ import annotations

from typing import ClassVar

from rackwright.drivers import base_image, image_build
from rackwright.drivers.podman import image_exists
from rackwright.provider.image_lock import image_lock
from rackwright.provider.protocol.property_values import Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource


class Image(Resource):
    """Inputs: os (`debian-13`), source (`auto`, `pull`, `bootstrap`), digest (of the install steps), scheduler, and for Kubernetes the
    folder of its bundle. Outputs: `image`, its name.
    """

    token: ClassVar[str] = "rackwright:lab:Image"
    required: ClassVar[tuple[str, ...]] = ("os", "source", "digest", "scheduler")
    ignore_changes: ClassVar[frozenset[str]] = frozenset({"source", "mirror", "bundle"})

    def preview_outputs(self, news: Properties) -> Properties:
        """Return the inputs with the image's name, which follows from them."""
        return {**news, "image": image_name(news)}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Build the image unless it is in local storage."""
        name = image_name(news)
        if not await image_exists(name):
            async with image_lock(operation.info):
                await _build(operation, name, news)
        return LiveResource(name, {**news, "image": name})

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """Return the recorded state while the image is in local storage, else None."""
        return LiveResource(state.id, state.outputs) if await image_exists(state.id) else None

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Build the image of the new install steps; existing nodes keep theirs and converge in place."""
        return await self.create(operation, news)

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Do nothing: the image stays in the cache."""


async def _build(operation: RequestContext, name: str, news: Properties) -> None:
    if await image_exists(name):  # built by the run that held the lock
        return
    base = await base_image.ensure(news["os"], news["source"], news.get("mirror"), operation.info)
    baking = image_build.ImageBuild(base, name, news["os"], news["scheduler"], news.get("bundle"))
    await image_build.bake(baking, operation.info, operation.status)


def image_name(news: Properties) -> str:
    """Return the image's name in local storage."""
    purpose = "" if news["scheduler"] == "slurm" else f"-{news['scheduler']}"
    return f"localhost/rackwright/node-{news['os']}{purpose}:{news['digest'][:12]}"
