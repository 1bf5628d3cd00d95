"""FSx for Lustre: a managed parallel file system of AWS. `rules` validates combinations of values."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.names import Label, MountPoint
from rackwright.model.units import Bytes, Mode
from rackwright.model.update_policy import UpdatePolicy


class Deployment(StrEnum):
    """FSx deployment types. SCRATCH_1 is not supported: SCRATCH_2 costs the same, is faster and encrypts data in transit."""

    SCRATCH_2 = "SCRATCH_2"
    PERSISTENT_1 = "PERSISTENT_1"
    PERSISTENT_2 = "PERSISTENT_2"


class Medium(StrEnum):
    """Storage medium."""

    SSD = "SSD"
    HDD = "HDD"


class Sync(StrEnum):
    """Kinds of changes to synchronise between a bucket and the file system."""

    NEW = "NEW"
    CHANGED = "CHANGED"
    DELETED = "DELETED"


class DataRepository(ConfigModel):
    """An S3 bucket that appears as a folder of the file system."""

    bucket: Annotated[str, UpdatePolicy.LIVE] = Field(
        pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", description="Existing bucket in the stack's region; it is never created or deleted."
    )
    prefix: Annotated[str, UpdatePolicy.LIVE] = Field(
        default="", pattern=r"^([^/\s]+/)*$", description="Key prefix of the objects, for example datasets/."
    )
    folder: Annotated[MountPoint, UpdatePolicy.LIVE] = Field(default="/s3", description="Folder of the file system, for example /s3.")
    imports: Annotated[tuple[Sync, ...], UpdatePolicy.LIVE] = Field(
        default=(Sync.NEW, Sync.CHANGED, Sync.DELETED), description="Changes of the bucket to import."
    )
    exports: Annotated[tuple[Sync, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="Changes of the folder to export to the bucket."
    )


class FsxLustre(ConfigModel):
    """An FSx for Lustre file system."""

    served_by_nodes: ClassVar[bool] = False
    """Whether nodes of the cluster serve it."""
    servers: ClassVar[tuple[str, ...]] = ()

    kind: Annotated[Literal["fsx-lustre"], UpdatePolicy.FORBIDDEN] = Field(description="FSx for Lustre file system; target aws only.")
    mount: Annotated[MountPoint, UpdatePolicy.LIVE] = Field(description="Mount point on clients, for example /fsx.")
    size: Annotated[Bytes, UpdatePolicy.DATA_LOSS] = Field(
        description="Capacity: 1200GiB, 2400GiB, then in steps of 2400GiB; larger values with `efa`."
    )
    deployment_type: Annotated[Deployment, UpdatePolicy.DATA_LOSS] = Field(
        default=Deployment.SCRATCH_2, description="Deployment type; SCRATCH_2 loses data if a server fails."
    )
    storage_type: Annotated[Medium, UpdatePolicy.DATA_LOSS] = Field(
        default=Medium.SSD, description="Storage medium; HDD requires PERSISTENT_1."
    )
    throughput: Annotated[int | None, UpdatePolicy.LIVE] = Field(
        default=None, ge=1, description="Throughput in MB/s per TiB of capacity; required for persistent file systems."
    )
    metadata_iops: Annotated[int | None, UpdatePolicy.LIVE] = Field(
        default=None, ge=1, description="Provisioned metadata IOPS; PERSISTENT_2 only."
    )
    efa: Annotated[bool, UpdatePolicy.DATA_LOSS] = Field(
        default=False, description="Use EFA for clients with EFA, with GPUDirect Storage to their GPUs."
    )
    drive_cache: Annotated[bool, UpdatePolicy.DATA_LOSS] = Field(default=False, description="SSD read cache for HDD storage.")
    compression: Annotated[bool, UpdatePolicy.LIVE] = Field(default=False, description="LZ4 data compression.")
    backups: Annotated[int, UpdatePolicy.LIVE] = Field(
        default=0, ge=0, le=90, description="Retention of automatic backups in days; 0 disables backups."
    )
    data_repositories: Annotated[tuple[DataRepository, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="S3 buckets that appear as folders."
    )
    mode: Annotated[Mode, UpdatePolicy.LIVE] = Field(default="1777", description='Mode of the root folder, in quotes, for example "1777".')
    clients: Annotated[tuple[Label, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="Groups that mount the file system. Default: all groups."
    )
