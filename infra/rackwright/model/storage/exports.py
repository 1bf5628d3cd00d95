"""Shared file systems: a union by `kind`, with common fields in `FileSystem`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.storage.fsx import FsxLustre
from rackwright.model.units import Bytes, Label, Mode, MountPoint
from rackwright.model.update_policy import Change


class FileSystem(Part):
    """Common fields of shared file systems."""

    served_by_nodes: ClassVar[bool] = True

    mount: Annotated[MountPoint, Change.LIVE] = Field(description="Mount point on clients, for example /mnt/sharedfs.")
    size: Annotated[Bytes, Change.RESTART] = Field(description="Space that each server reserves, for example 5GiB.")
    mode: Annotated[Mode, Change.LIVE] = Field(default="1777", description='Mode of the root folder, in quotes, for example "1777".')
    servers: Annotated[tuple[Label, ...], Change.MEMBERS] = Field(
        default=(), description="Groups that serve the file system. Default: all groups with the role storage."
    )
    clients: Annotated[tuple[Label, ...], Change.LIVE] = Field(
        default=(), description="Groups that mount the file system. Default: all groups."
    )


class MooseFs(FileSystem):
    """MooseFS, a parallel file system with a metadata server and chunk servers; it replaces Lustre in the lab."""

    kind: Annotated[Literal["moosefs"], Change.FORBIDDEN] = Field(
        description="MooseFS, a parallel file system that needs no kernel module."
    )


class Nfs(FileSystem):
    """A folder of one node, exported over NFS 4.2 with the kernel's server and client."""

    kind: Annotated[Literal["nfs"], Change.FORBIDDEN] = Field(description="Folder of one server, exported over NFS 4.2.")
    size: Annotated[Bytes, Change.LIVE] = Field(
        description="Size of the disk with the server's folder, for example 500GiB; no quota enforces it."
    )
    rdma: Annotated[bool, Change.FORBIDDEN] = Field(
        default=False,
        description="Use RDMA instead of TCP on the network of the nodes' addresses: RoCE, or IP over InfiniBand.",
    )


Storage = Annotated[MooseFs | Nfs | FsxLustre, Field(discriminator="kind")]
