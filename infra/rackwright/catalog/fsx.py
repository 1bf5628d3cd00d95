"""What FSx for Lustre lets one choose.

Source unless a line says otherwise: CreateFileSystem and CreateFileSystemLustreConfiguration of the FSx API (botocore 1.44.5, 2026-11-20).
Capacities are GiB, throughput of a file system is MB/s, throughput per capacity is MB/s per TiB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class DeploymentType(StrEnum):
    """Scratch is neither replicated nor repaired; persistent is both, within its zone."""

    SCRATCH_1 = "SCRATCH_1"
    SCRATCH_2 = "SCRATCH_2"
    PERSISTENT_1 = "PERSISTENT_1"
    PERSISTENT_2 = "PERSISTENT_2"

    @property
    def persistent(self) -> bool:
        """Whether it is kept when a server fails; only these take backups and a key of one's own."""
        return self in {DeploymentType.PERSISTENT_1, DeploymentType.PERSISTENT_2}

    @property
    def takes_metadata(self) -> bool:
        """Whether metadata IOPS can be chosen."""
        return self is DeploymentType.PERSISTENT_2


class StorageType(StrEnum):
    """What the data lies on."""

    SSD = "SSD"
    HDD = "HDD"
    INTELLIGENT_TIERING = "INTELLIGENT_TIERING"


class MetadataMode(StrEnum):
    """Whether metadata IOPS follow the capacity or are chosen."""

    AUTOMATIC = "AUTOMATIC"
    USER_PROVISIONED = "USER_PROVISIONED"


class DriveCache(StrEnum):
    """SSD cache before HDD storage, a fifth of its capacity. HDD must say which, nothing else may."""

    NONE = "NONE"
    READ = "READ"


@dataclass(frozen=True, slots=True)
class Steps:
    """Numbers that are allowed: a few small ones, then the multiples of a step."""

    small: tuple[int, ...]
    step: int | None
    """None where there are no others than the small ones."""
    most: int | None = None

    def __contains__(self, number: int) -> bool:
        """Whether it is allowed.

        >>> 2400 in Steps((1200,), 2400), 3600 in Steps((1200,), 2400)
        (True, False)
        """
        return number in self.small or (number > 0 and number == self._multiple(number, up=True))

    def at_least(self, number: int) -> int | None:
        """The smallest allowed one that is not below; None above the most."""
        found = [each for each in (*self.small, self._multiple(number, up=True)) if each is not None and each >= number]
        return min(found, default=None)

    def nearest(self, number: int) -> int:
        """The allowed one with the smallest distance; of two the larger.

        >>> Steps((1200,), 2400).nearest(3600)
        4800
        """
        near = (*self.small, self._multiple(number, up=False), self._multiple(number, up=True))
        return max((each for each in near if each is not None), key=lambda each: (-abs(each - number), each))

    def _multiple(self, number: int, *, up: bool) -> int | None:
        """The multiple of the step next to a number, at least one step and not above the most."""
        if self.step is None:
            return None
        count = max(1, -(-number // self.step) if up else number // self.step)
        return min(count, self.most // self.step if self.most else count) * self.step

    def __str__(self) -> str:
        """For a hint: `1200, 2400, then multiples of 2400`."""
        small = ", ".join(str(each) for each in self.small)
        if self.step is None:
            return small
        return (f"{small}, then " if small else "") + f"multiples of {self.step}" + (f" up to {self.most}" if self.most else "")


_STORAGE: Final[Mapping[DeploymentType, tuple[StorageType, ...]]] = {
    DeploymentType.SCRATCH_1: (StorageType.SSD,),
    DeploymentType.SCRATCH_2: (StorageType.SSD,),
    DeploymentType.PERSISTENT_1: (StorageType.SSD, StorageType.HDD),
    DeploymentType.PERSISTENT_2: (StorageType.SSD, StorageType.INTELLIGENT_TIERING),
}

_THROUGHPUTS: Final[Mapping[tuple[DeploymentType, StorageType], tuple[int, ...]]] = {
    (DeploymentType.PERSISTENT_1, StorageType.SSD): (50, 100, 200),
    (DeploymentType.PERSISTENT_1, StorageType.HDD): (12, 40),
    (DeploymentType.PERSISTENT_2, StorageType.SSD): (125, 250, 500, 1000),
}

_HDD_STEPS: Final = {12: Steps((), 6000), 40: Steps((), 1800)}
_EFA_STEPS: Final = {1000: Steps((), 4800), 500: Steps((), 9600), 250: Steps((), 19200), 125: Steps((), 38400)}
"""Capacity by throughput with EFA. Source: FSx for Lustre guide, increase storage capacity (2026-11-20)."""

TIERING_THROUGHPUT: Final = Steps((), 4000, 2_000_000)
"""Throughput of a file system on Intelligent-Tiering; it has no capacity."""


def storage_types(deployment: DeploymentType) -> tuple[StorageType, ...]:
    """What a deployment type can lie on."""
    return _STORAGE[deployment]


def throughputs(deployment: DeploymentType, storage: StorageType = StorageType.SSD) -> tuple[int, ...]:
    """Throughput per capacity to choose from; one is required where there are any, and none may be given elsewhere."""
    return _THROUGHPUTS.get((deployment, storage), ())


def capacities(
    deployment: DeploymentType, storage: StorageType = StorageType.SSD, throughput: int | None = None, *, efa: bool = False
) -> Steps | None:
    """Capacities that are allowed. None where there is none to choose (Intelligent-Tiering) or the throughput is not allowed."""
    if storage is StorageType.INTELLIGENT_TIERING:
        return None
    if storage is StorageType.HDD:
        return _HDD_STEPS.get(throughput or 0)
    if efa:
        return _EFA_STEPS.get(throughput or 0) if takes_efa(deployment, metadata=True) else None
    if deployment is DeploymentType.SCRATCH_1:
        return Steps((1200, 2400), 3600)
    return Steps((1200,), 2400)


def metadata_modes(storage: StorageType) -> tuple[MetadataMode, ...]:
    """Only SSD sizes its metadata by itself."""
    return tuple(MetadataMode) if storage is StorageType.SSD else (MetadataMode.USER_PROVISIONED,)


def metadata_iops(storage: StorageType = StorageType.SSD) -> Steps:
    """Metadata IOPS to choose from with USER_PROVISIONED; with AUTOMATIC none may be given."""
    return Steps((1500, 3000, 6000), 12000, 192000) if storage is StorageType.SSD else Steps((6000, 12000), None)


def takes_efa(deployment: DeploymentType, *, metadata: bool) -> bool:
    """Whether clients can reach it over EFA: PERSISTENT_2 with a metadata configuration.

    Source: FSx for Lustre guide, EFA-enabled file systems (2026-11-20).
    """
    return deployment is DeploymentType.PERSISTENT_2 and metadata


def lustre_versions(deployment: DeploymentType, *, metadata: bool = False) -> tuple[str, ...]:
    """Versions a deployment type runs, oldest first."""
    if deployment is not DeploymentType.PERSISTENT_2:
        return ("2.10", "2.12", "2.15")
    return ("2.15",) if metadata else ("2.12", "2.15")


def default_lustre_version(deployment: DeploymentType, *, metadata: bool = False) -> str:
    """What FSx takes when nothing is said: always the oldest one that runs."""
    return lustre_versions(deployment, metadata=metadata)[0]
