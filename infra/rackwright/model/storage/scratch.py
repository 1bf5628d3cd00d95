"""Scratch file system on a node's local disks, for the duration of a job."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from rackwright.model.base import ConfigModel
from rackwright.model.names import Label, MountPoint
from rackwright.model.units import Mode
from rackwright.model.update_policy import UpdatePolicy


class RaidLevel(IntEnum):
    """RAID level: striped (0) or mirrored (1)."""

    STRIPED = 0
    MIRRORED = 1


class ScratchFileSystem(StrEnum):
    """File systems of a scratch array."""

    EXT4 = "ext4"
    XFS = "xfs"


Device = Annotated[str, StringConstraints(pattern=r"^/dev/[A-Za-z0-9][A-Za-z0-9/._:+-]*$")]


class Scratch(ConfigModel):
    """Disks of every node as one file system. Its data is lost when a node is reinstalled, and it is not backed up."""

    devices: Annotated[tuple[Device, ...], UpdatePolicy.FORBIDDEN] = Field(
        min_length=1,
        description="Disks, identical on every node; preferably persistent names, for example /dev/disk/by-path/pci-0000:c1:00.0-nvme-1.",
    )
    format_empty_disks: Annotated[bool, UpdatePolicy.RUN] = Field(
        default=False,
        description="Permission to create the array on empty disks; required for any write. Disks that are not empty are refused.",
    )
    raid_level: Annotated[RaidLevel, UpdatePolicy.FORBIDDEN] = Field(
        default=RaidLevel.STRIPED, description="RAID level: 0 is striped, and its data is lost with the first failed disk; 1 is mirrored."
    )
    file_system: Annotated[ScratchFileSystem, UpdatePolicy.FORBIDDEN] = Field(
        default=ScratchFileSystem.EXT4, description="File system of a new array."
    )
    mount: Annotated[MountPoint, UpdatePolicy.LIVE] = Field(default="/scratch", description="Mount point.")
    mode: Annotated[Mode, UpdatePolicy.LIVE] = Field(default="1777", description='Mode of the root folder, in quotes, for example "1777".')
    groups: Annotated[tuple[Label, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="Groups with a scratch file system. Default: all groups that run jobs."
    )
