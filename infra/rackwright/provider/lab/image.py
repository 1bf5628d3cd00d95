"""The lab's node image: a Debian base with the roles' own install steps baked in, named by the digest of what went into it.

It is a cache shared by all stacks of this user: deleting the resource leaves it, `rackwright down --images` removes it.
"""

from __future__ import annotations

from typing import ClassVar

from rackwright.drivers import bake, base_image
from rackwright.drivers.podman import image_exists
from rackwright.provider.protocol.property_values import Properties
from rackwright.provider.protocol.resource import Made, Operation, Resource, State


class Image(Resource):
    """Inputs: os (`debian-13`), source (`auto`, `pull`, `bootstrap`), digest (of the install steps), scheduler, and for Kubernetes the
    folder of its bundle. Outputs: `image`, its name.
    """

    token: ClassVar[str] = "rackwright:lab:Image"
    required: ClassVar[tuple[str, ...]] = ("os", "source", "digest", "scheduler")
    only_at_creation: ClassVar[frozenset[str]] = frozenset({"source", "mirror", "bundle"})

    def foresee(self, news: Properties) -> Properties:
        """Its name follows from its inputs."""
        return {**news, "image": image_name(news)}

    async def create(self, operation: Operation, news: Properties) -> Made:
        """Build and bake it, unless it is there."""
        name = image_name(news)
        if not await image_exists(name):
            base = await base_image.provide(news["os"], news["source"], news.get("mirror"), operation.info)
            baking = bake.Baking(base, name, news["os"], news["scheduler"], news.get("bundle"))
            await bake.bake(baking, operation.info, operation.status)
        return Made(name, {**news, "image": name})

    async def read(self, operation: Operation, state: State) -> Made | None:
        """Whether it is in local storage."""
        return Made(state.id, state.outputs) if await image_exists(state.id) else None

    async def update(self, operation: Operation, state: State, news: Properties) -> Made:
        """Other install steps make another image; nodes that exist keep theirs and converge in place."""
        return await self.create(operation, news)

    async def delete(self, operation: Operation, state: State) -> None:
        """The image stays in the cache."""


def image_name(news: Properties) -> str:
    """The image's name in local storage."""
    purpose = "" if news["scheduler"] == "slurm" else f"-{news['scheduler']}"
    return f"localhost/rackwright/node-{news['os']}{purpose}:{news['digest'][:12]}"
