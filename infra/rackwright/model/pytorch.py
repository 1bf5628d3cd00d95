"""PyTorch, once for all nodes, on a shared file system."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from rackwright.model.base import Part
from rackwright.model.policy import Change
from rackwright.model.units import Label, MountPoint

Requirement = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[a-z0-9,_-]+\])?==[A-Za-z0-9.+!]+$")]


class Pytorch(Part):
    """A virtual environment with PyTorch in it, for everybody who mounts the file system."""

    version: Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+(\+[a-z0-9]+)?$"), Change.LIVE] = Field(
        description='Its version, in quotes, like "2.8.0" or "2.8.0+cu129". A new one is installed beside the old one.'
    )
    storage: Annotated[Label | None, Change.LIVE] = Field(
        default=None, description="The shared file system it lies on; the first one when left out."
    )
    index: Annotated[str | None, Change.LIVE] = Field(
        default=None, pattern=r"^https?://\S+$", description="Package index it comes from; pip's own on the node when left out."
    )
    wheelhouse: Annotated[MountPoint | None, Change.LIVE] = Field(
        default=None, description="Folder with all wheels, as nodes see it, for nodes without a way out; no index is asked then."
    )
    packages: Annotated[tuple[Requirement, ...], Change.LIVE] = Field(
        default=(), description="What is installed beside it, each with its version, like numpy==2.2.6."
    )
