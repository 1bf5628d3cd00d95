"""File systems of servers that exist already: rackwright mounts them, and creates, changes and deletes nothing on the servers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.names import Label, MountPoint
from rackwright.model.storage.sources import LustreSource, NfsSource
from rackwright.model.update_policy import UpdatePolicy


class NfsVersion(StrEnum):
    """Versions of NFS (nfs(5), nfsvers)."""

    V3 = "3"
    V4_0 = "4.0"
    V4_1 = "4.1"
    V4_2 = "4.2"


class NfsSecurity(StrEnum):
    """Security flavours of NFS (nfs(5), sec)."""

    SYS = "sys"
    KRB5 = "krb5"
    KRB5I = "krb5i"
    KRB5P = "krb5p"


class ExistingFileSystem(ConfigModel):
    """Common fields of file systems that rackwright mounts only."""

    served_by_nodes: ClassVar[bool] = False
    """Whether nodes of the cluster serve it."""
    servers: ClassVar[tuple[str, ...]] = ()

    mount: Annotated[MountPoint, UpdatePolicy.LIVE] = Field(description="Mount point on clients, for example /mnt/projects.")
    read_only: Annotated[bool, UpdatePolicy.FORBIDDEN] = Field(default=False, description="Mount the file system read-only.")
    user_folder: Annotated[str, UpdatePolicy.RUN] = Field(
        default="",
        pattern=r"^([A-Za-z0-9_][A-Za-z0-9._@+-]*(/[A-Za-z0-9_][A-Za-z0-9._@+-]*)*)?$",
        description=(
            "Folder below the mount point, for example projects/shared, in which a check requires that the first of `users` may write. "
            "The check writes nothing. Default: the home directory of the user if it is on the file system, else the root folder."
        ),
    )
    clients: Annotated[tuple[Label, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="Groups that mount the file system. Default: all groups."
    )


class ExistingNfs(ExistingFileSystem):
    """A folder that a server outside the cluster exports over NFS."""

    kind: Annotated[Literal["existing-nfs"], UpdatePolicy.FORBIDDEN] = Field(
        description="Folder of an existing NFS server; it is mounted, and nothing on the server is changed."
    )
    source: Annotated[NfsSource, UpdatePolicy.FORBIDDEN] = Field(
        description="Server and exported folder, for example nas.example.org:/export/home; an IPv6 address in brackets."
    )
    version: Annotated[NfsVersion, UpdatePolicy.FORBIDDEN] = Field(
        default=NfsVersion.V4_2, description='Version of NFS, in quotes: "3", "4.0", "4.1" or "4.2".'
    )
    sec: Annotated[NfsSecurity, UpdatePolicy.FORBIDDEN] = Field(
        default=NfsSecurity.SYS, description="Security flavour; those of Kerberos need /etc/krb5.keytab on each client."
    )
    rdma: Annotated[bool, UpdatePolicy.FORBIDDEN] = Field(
        default=False, description="Use RDMA, on port 20049 of the server, instead of TCP."
    )
    nconnect: Annotated[int, UpdatePolicy.FORBIDDEN] = Field(
        default=1, ge=1, le=16, description="TCP connections of each client to the server (nfs(5)); not used with `rdma`."
    )


class ExistingLustre(ExistingFileSystem):
    """A Lustre file system whose servers are outside the cluster."""

    kind: Annotated[Literal["existing-lustre"], UpdatePolicy.FORBIDDEN] = Field(
        description="Existing Lustre file system; it is mounted, and nothing on its servers is changed."
    )
    source: Annotated[LustreSource, UpdatePolicy.FORBIDDEN] = Field(
        description="NIDs of the management servers and the file system's name, for example 10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch."
    )
    flock: Annotated[bool, UpdatePolicy.FORBIDDEN] = Field(
        default=True, description="File locks that hold between nodes; false: `flock` fails (mount.lustre(8), noflock)."
    )
