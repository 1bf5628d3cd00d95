"""FSx for Lustre: a parallel file system that AWS runs. Which values go together is judged in `rules`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.policy import Change
from rackwright.model.units import Bytes, Label, Mode, MountPoint


class Deployment(StrEnum):
    """FSx deployment types; SCRATCH_1 is left out, since SCRATCH_2 costs the same and is faster and encrypted in transit."""

    SCRATCH_2 = "SCRATCH_2"
    PERSISTENT_1 = "PERSISTENT_1"
    PERSISTENT_2 = "PERSISTENT_2"


class Medium(StrEnum):
    """What the data lie on."""

    SSD = "SSD"
    HDD = "HDD"


class Sync(StrEnum):
    """What is carried between a bucket and the file system."""

    NEW = "NEW"
    CHANGED = "CHANGED"
    DELETED = "DELETED"


class DataRepository(Part):
    """A bucket that shows up as a folder of the file system."""

    bucket: Annotated[str, Change.LIVE] = Field(
        pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", description="An existing bucket in the stack's region; it is never made nor removed."
    )
    prefix: Annotated[str, Change.LIVE] = Field(
        default="", pattern=r"^([^/\s]+/)*$", description="What its keys begin with, like datasets/."
    )
    folder: Annotated[MountPoint, Change.LIVE] = Field(default="/s3", description="Folder of the file system, like /s3.")
    imports: Annotated[tuple[Sync, ...], Change.LIVE] = Field(
        default=(Sync.NEW, Sync.CHANGED, Sync.DELETED), description="Changes of the bucket that are followed."
    )
    exports: Annotated[tuple[Sync, ...], Change.LIVE] = Field(default=(), description="Changes of the folder that are written back.")


class FsxLustre(Part):
    """A Lustre file system of AWS."""

    served_by_nodes: ClassVar[bool] = False
    """Whether nodes of the cluster serve it."""
    servers: ClassVar[tuple[str, ...]] = ()

    kind: Annotated[Literal["fsx-lustre"], Change.FORBIDDEN] = Field(description="A Lustre file system that AWS runs; target aws alone.")
    mount: Annotated[MountPoint, Change.LIVE] = Field(description="Where clients mount it, like /fsx.")
    size: Annotated[Bytes, Change.DATA_LOSS] = Field(description="Its capacity: 1200GiB, 2400GiB and then steps of 2400GiB; more with efa.")
    deployment: Annotated[Deployment, Change.DATA_LOSS] = Field(
        default=Deployment.SCRATCH_2, description="SCRATCH_2 loses data when a server fails."
    )
    medium: Annotated[Medium, Change.DATA_LOSS] = Field(default=Medium.SSD, description="HDD for PERSISTENT_1 alone.")
    throughput: Annotated[int | None, Change.LIVE] = Field(
        default=None, ge=1, description="MB/s per TiB of capacity; persistent file systems must say it."
    )
    metadata_iops: Annotated[int | None, Change.LIVE] = Field(
        default=None, ge=1, description="Provisioned metadata operations; PERSISTENT_2 alone."
    )
    efa: Annotated[bool, Change.DATA_LOSS] = Field(
        default=False, description="Clients with EFA reach it over EFA, and their GPUs directly."
    )
    drive_cache: Annotated[bool, Change.DATA_LOSS] = Field(default=False, description="An SSD read cache before HDDs.")
    compression: Annotated[bool, Change.LIVE] = Field(default=False, description="LZ4.")
    backups: Annotated[int, Change.LIVE] = Field(default=0, ge=0, le=90, description="Days that automatic backups are kept; 0 makes none.")
    repositories: Annotated[tuple[DataRepository, ...], Change.LIVE] = Field(default=(), description="Buckets that show up as folders.")
    mode: Annotated[Mode, Change.LIVE] = Field(default="1777", description='Mode of its root folder, in quotes, like "1777".')
    clients: Annotated[tuple[Label, ...], Change.LIVE] = Field(default=(), description="Groups that mount it; all when left out.")
