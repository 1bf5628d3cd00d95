"""Shared file systems: a union by `kind`, with what all have in `FileSystem`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.fsx import FsxLustre
from rackwright.model.policy import Change
from rackwright.model.units import Bytes, Label, Mode, MountPoint


class FileSystem(Part):
    """What every shared file system has."""

    served_by_nodes: ClassVar[bool] = True

    mount: Annotated[MountPoint, Change.LIVE] = Field(description="Where clients mount it, like /mnt/sharedfs.")
    size: Annotated[Bytes, Change.RESTART] = Field(description="Space each server sets aside, like 5GiB.")
    mode: Annotated[Mode, Change.LIVE] = Field(default="1777", description='Mode of its root folder, in quotes, like "1777".')
    servers: Annotated[tuple[Label, ...], Change.MEMBERS] = Field(
        default=(), description="Groups that serve it; all with the role storage when left out."
    )
    clients: Annotated[tuple[Label, ...], Change.LIVE] = Field(default=(), description="Groups that mount it; all when left out.")


class MooseFs(FileSystem):
    """A parallel file system with a metadata server and chunk servers; stands in for Lustre in the lab."""

    kind: Annotated[Literal["moosefs"], Change.FORBIDDEN] = Field(description="A parallel file system that needs no kernel module.")


class Nfs(FileSystem):
    """A folder of one node, exported over NFS 4.2. Server and client are the kernel's own."""

    kind: Annotated[Literal["nfs"], Change.FORBIDDEN] = Field(description="A folder of one server, exported over NFS 4.2.")
    size: Annotated[Bytes, Change.LIVE] = Field(
        description="Size of the disk that its server's folder lies on, like 500GiB; nothing keeps its users below it."
    )
    rdma: Annotated[bool, Change.FORBIDDEN] = Field(
        default=False,
        description="Over RDMA instead of TCP, on the network that the nodes know each other by: RoCE, or IP over InfiniBand.",
    )


Storage = Annotated[MooseFs | Nfs | FsxLustre, Field(discriminator="kind")]
