"""Shared file systems: a union by `kind`, with common fields in `FileSystem`."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.names import Label, MountPoint
from rackwright.model.storage.existing import ExistingLustre, ExistingNfs
from rackwright.model.storage.fsx import FsxLustre
from rackwright.model.units import Bytes, Mode
from rackwright.model.update_policy import UpdatePolicy

SYSTEMS_WITH_MOOSEFS: Final = re.compile(r"debian-1[3-9]$")
"""Releases with packages of MooseFS, as the roles moosefs_server and moosefs_client require them (packages.debian.org/moosefs)."""


class FileSystem(ConfigModel):
    """Common fields of shared file systems."""

    served_by_nodes: ClassVar[bool] = True

    mount: Annotated[MountPoint, UpdatePolicy.LIVE] = Field(description="Mount point on clients, for example /mnt/sharedfs.")
    size: Annotated[Bytes, UpdatePolicy.RESTART] = Field(description="Space that each server reserves, for example 5GiB.")
    mode: Annotated[Mode, UpdatePolicy.LIVE] = Field(default="1777", description='Mode of the root folder, in quotes, for example "1777".')
    servers: Annotated[tuple[Label, ...], UpdatePolicy.MEMBERS] = Field(
        default=(), description="Groups that serve the file system. Default: all groups with the role storage."
    )
    clients: Annotated[tuple[Label, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="Groups that mount the file system. Default: all groups."
    )


class MooseFs(FileSystem):
    """MooseFS, a parallel file system with a metadata server and chunk servers; it replaces Lustre in the lab."""

    kind: Annotated[Literal["moosefs"], UpdatePolicy.FORBIDDEN] = Field(
        description="MooseFS, a parallel file system that needs no kernel module."
    )


class Nfs(FileSystem):
    """A folder of one node, exported over NFS 4.2 with the kernel's server and client."""

    kind: Annotated[Literal["nfs"], UpdatePolicy.FORBIDDEN] = Field(description="Folder of one server, exported over NFS 4.2.")
    size: Annotated[Bytes, UpdatePolicy.LIVE] = Field(
        description="Size of the disk with the server's folder, for example 500GiB; no quota enforces it."
    )
    rdma: Annotated[bool, UpdatePolicy.FORBIDDEN] = Field(
        default=False,
        description="Use RDMA instead of TCP on the network of the nodes' addresses: RoCE, or IP over InfiniBand.",
    )
    nconnect: Annotated[int, UpdatePolicy.FORBIDDEN] = Field(
        default=8, ge=1, le=16, description="TCP connections of each client to the server (nfs(5)); not used with `rdma`."
    )


Storage = Annotated[MooseFs | Nfs | FsxLustre | ExistingNfs | ExistingLustre, Field(discriminator="kind")]
