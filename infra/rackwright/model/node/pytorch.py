"""PyTorch, installed once for all nodes on a shared file system."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from rackwright.model.base import ConfigModel
from rackwright.model.names import Label, MountPoint
from rackwright.model.update_policy import UpdatePolicy

Requirement = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[a-z0-9,_-]+\])?==[A-Za-z0-9.+!]+$")]


class PytorchSource(StrEnum):
    """Where PyTorch comes from."""

    WHEELS = "wheels"
    DEBIAN = "debian"


PytorchVersion = Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+(\+[a-z0-9]+)?$")]


class Pytorch(ConfigModel):
    """PyTorch from wheels, in a virtual environment for all nodes that mount the file system, or from Debian, on each worker."""

    source: Annotated[PytorchSource, UpdatePolicy.LIVE] = Field(
        default=PytorchSource.WHEELS,
        description="`wheels` in a virtual environment, or `debian`: Debian 13's package for CPUs (2.6) on each worker, 973 MB.",
    )
    version: Annotated[PytorchVersion | None, UpdatePolicy.LIVE] = Field(
        default=None,
        description='PyTorch version of the wheels, in quotes, for example "2.8.0" or "2.8.0+cu129". '
        "A new version is installed next to the old one.",
    )
    storage: Annotated[Label | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Shared file system to install on. Default: the first one."
    )
    index: Annotated[str | None, UpdatePolicy.LIVE] = Field(
        default=None, pattern=r"^https?://\S+$", description="Package index. Default: the node's pip configuration."
    )
    wheelhouse: Annotated[MountPoint | None, UpdatePolicy.LIVE] = Field(
        default=None,
        description="Folder with all wheels, as a path on the nodes, for nodes without internet access; no index is used then.",
    )
    packages: Annotated[tuple[Requirement, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="Additional packages, each with its version, for example numpy==2.2.6."
    )
