"""Shared file systems: a union by `kind`, with what all have in `FileSystem`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.units import Bytes, Label, Mode, MountPoint


class FileSystem(Part):
    """What every shared file system has."""

    mount: MountPoint = Field(description="Where clients mount it, like /mnt/sharedfs.")
    size: Bytes = Field(description="Space each server sets aside, like 5GiB.")
    mode: Mode = Field(default="1777", description='Mode of its root folder, in quotes, like "1777".')
    servers: tuple[Label, ...] = Field(default=(), description="Groups that serve it; all with the role storage when left out.")
    clients: tuple[Label, ...] = Field(default=(), description="Groups that mount it; all when left out.")


class MooseFs(FileSystem):
    """A parallel file system with a metadata server and chunk servers; stands in for Lustre in the lab."""

    kind: Literal["moosefs"] = Field(description="A parallel file system that needs no kernel module.")


class Nfs(FileSystem):
    """A folder of one node, exported over NFS 4.2. Server and client are the kernel's own."""

    kind: Literal["nfs"] = Field(description="A folder of one server, exported over NFS 4.2.")
    size: Bytes = Field(description="Size of the disk that its server's folder lies on, like 500GiB; nothing keeps its users below it.")


Storage = Annotated[MooseFs | Nfs, Field(discriminator="kind")]
