"""Shared file systems."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.fsx import FsxLustre
from rackwright.model.units import Bytes, Label, Mode, MountPoint


class MooseFs(Part):
    """A parallel file system with a metadata server and chunk servers; stands in for Lustre in the lab."""

    served_by_nodes: ClassVar[bool] = True

    kind: Literal["moosefs"] = Field(description="A parallel file system that needs no kernel module.")
    mount: MountPoint = Field(description="Where clients mount it, like /mnt/sharedfs.")
    size: Bytes = Field(description="Space each server sets aside, like 5GiB.")
    mode: Mode = Field(default="1777", description='Mode of its root folder, in quotes, like "1777".')
    servers: tuple[Label, ...] = Field(default=(), description="Groups that serve it; all with the role storage when left out.")
    clients: tuple[Label, ...] = Field(default=(), description="Groups that mount it; all when left out.")


Storage = Annotated[MooseFs | FsxLustre, Field(discriminator="kind")]
