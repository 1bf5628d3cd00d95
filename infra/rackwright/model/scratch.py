"""Fast space on a node's own disks, for the duration of a job."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from rackwright.model.base import Part
from rackwright.model.policy import Change
from rackwright.model.units import Label, Mode, MountPoint


class RaidLevel(IntEnum):
    """How disks are put together: all of their space, or everything twice."""

    STRIPED = 0
    MIRRORED = 1


class ScratchFileSystem(StrEnum):
    """File systems a scratch array is given."""

    EXT4 = "ext4"
    XFS = "xfs"


Device = Annotated[str, StringConstraints(pattern=r"^/dev/[A-Za-z0-9][A-Za-z0-9/._:+-]*$")]


class Scratch(Part):
    """Some disks of every node as one file system. Nothing on it outlives a reinstalled node, and nobody backs it up."""

    devices: Annotated[tuple[Device, ...], Change.FORBIDDEN] = Field(
        min_length=1,
        description="The disks, the same on every node, best by names that stay, like /dev/disk/by-path/pci-0000:c1:00.0-nvme-1.",
    )
    use_empty_disks: Annotated[bool, Change.RUN] = Field(
        default=False, description="Has to be true for anything to be written: disks that are empty become the array. Others are refused."
    )
    level: Annotated[RaidLevel, Change.FORBIDDEN] = Field(
        default=RaidLevel.STRIPED, description="0: all of their space, lost with the first disk; 1: everything twice."
    )
    file_system: Annotated[ScratchFileSystem, Change.FORBIDDEN] = Field(
        default=ScratchFileSystem.EXT4, description="What a new array is given."
    )
    mount: Annotated[MountPoint, Change.LIVE] = Field(default="/scratch", description="Where it is mounted.")
    mode: Annotated[Mode, Change.LIVE] = Field(default="1777", description='Mode of its root folder, in quotes, like "1777".')
    groups: Annotated[tuple[Label, ...], Change.LIVE] = Field(
        default=(), description="Groups that have it; all that run jobs when left out."
    )
