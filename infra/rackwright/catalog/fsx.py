"""Valid options of FSx for Lustre.

Source unless a line says otherwise: CreateFileSystem and CreateFileSystemLustreConfiguration of the FSx API (botocore 1.44.5, 2026-11-20).
Capacities are GiB, throughput of a file system is MB/s, throughput per capacity is MB/s per TiB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class DeploymentType(StrEnum):
    """Deployment type: scratch is neither replicated nor repaired; persistent is both, within its zone."""

    SCRATCH_1 = "SCRATCH_1"
    SCRATCH_2 = "SCRATCH_2"
    PERSISTENT_1 = "PERSISTENT_1"
    PERSISTENT_2 = "PERSISTENT_2"

    @property
    def persistent(self) -> bool:
        """Return whether the data survives a failed server; only such types support backups and a customer-managed key."""
        return self in {DeploymentType.PERSISTENT_1, DeploymentType.PERSISTENT_2}

    @property
    def takes_metadata(self) -> bool:
        """Return whether metadata IOPS can be chosen."""
        return self is DeploymentType.PERSISTENT_2


class StorageType(StrEnum):
    """Storage medium."""

    SSD = "SSD"
    HDD = "HDD"
    INTELLIGENT_TIERING = "INTELLIGENT_TIERING"


class MetadataMode(StrEnum):
    """How metadata IOPS are determined: from the capacity, or by the user."""

    AUTOMATIC = "AUTOMATIC"
    USER_PROVISIONED = "USER_PROVISIONED"


class DriveCache(StrEnum):
    """SSD cache for HDD storage, a fifth of its capacity. It is required with HDD and invalid otherwise."""

    NONE = "NONE"
    READ = "READ"


@dataclass(frozen=True, slots=True)
class SizeSteps:
    """Allowed numbers: some small ones, then the multiples of a step."""

    first_sizes: tuple[int, ...]
    step: int | None
    """None if only the small ones are allowed."""
    maximum: int | None = None

    def __contains__(self, number: int) -> bool:
        """Return whether the number is allowed.

        >>> 2400 in SizeSteps((1200,), 2400), 3600 in SizeSteps((1200,), 2400)
        (True, False)
        """
        return number in self.first_sizes or (number > 0 and number == self._multiple(number, up=True))

    def at_least(self, number: int) -> int | None:
        """Return the smallest allowed number that is not less; None above the maximum."""
        found = [each for each in (*self.first_sizes, self._multiple(number, up=True)) if each is not None and each >= number]
        return min(found, default=None)

    def nearest(self, number: int) -> int:
        """Return the nearest allowed number; of two, the larger one.

        >>> SizeSteps((1200,), 2400).nearest(3600)
        4800
        """
        near = (*self.first_sizes, self._multiple(number, up=False), self._multiple(number, up=True))
        return max((each for each in near if each is not None), key=lambda each: (-abs(each - number), each))

    def _multiple(self, number: int, *, up: bool) -> int | None:
        """Return the nearest multiple of the step, at least one step and at most the maximum."""
        if self.step is None:
            return None
        count = max(1, -(-number // self.step) if up else number // self.step)
        return min(count, self.maximum // self.step if self.maximum else count) * self.step

    def __str__(self) -> str:
        """Return the numbers for a hint: `1200, 2400, then multiples of 2400`."""
        small = ", ".join(str(each) for each in self.first_sizes)
        if self.step is None:
            return small
        return (f"{small}, then " if small else "") + f"multiples of {self.step}" + (f" up to {self.maximum}" if self.maximum else "")


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

_HDD_STEPS: Final = {12: SizeSteps((), 6000), 40: SizeSteps((), 1800)}
_EFA_STEPS: Final = {1000: SizeSteps((), 4800), 500: SizeSteps((), 9600), 250: SizeSteps((), 19200), 125: SizeSteps((), 38400)}
"""Capacity by throughput with EFA. Source: FSx for Lustre guide, increase storage capacity (2026-11-20)."""

TIERING_THROUGHPUT: Final = SizeSteps((), 4000, 2_000_000)
"""Throughput of a file system with Intelligent-Tiering, which has no capacity."""


def storage_types(deployment: DeploymentType) -> tuple[StorageType, ...]:
    """Return the storage types of a deployment type."""
    return _STORAGE[deployment]


def throughputs(deployment: DeploymentType, storage: StorageType = StorageType.SSD) -> tuple[int, ...]:
    """Return the valid values of throughput per capacity. If there are any, one is required; otherwise none is valid."""
    return _THROUGHPUTS.get((deployment, storage), ())


def capacities(
    deployment: DeploymentType, storage: StorageType = StorageType.SSD, throughput: int | None = None, *, efa: bool = False
) -> SizeSteps | None:
    """Return the allowed capacities; None if there is no choice (Intelligent-Tiering) or the throughput is not allowed."""
    if storage is StorageType.INTELLIGENT_TIERING:
        return None
    if storage is StorageType.HDD:
        return _HDD_STEPS.get(throughput or 0)
    if efa:
        return _EFA_STEPS.get(throughput or 0) if takes_efa(deployment, metadata=True) else None
    if deployment is DeploymentType.SCRATCH_1:
        return SizeSteps((1200, 2400), 3600)
    return SizeSteps((1200,), 2400)


def metadata_modes(storage: StorageType) -> tuple[MetadataMode, ...]:
    """Return the metadata modes; only SSD supports automatic sizing."""
    return tuple(MetadataMode) if storage is StorageType.SSD else (MetadataMode.USER_PROVISIONED,)


def metadata_iops(storage: StorageType = StorageType.SSD) -> SizeSteps:
    """Return the metadata IOPS that USER_PROVISIONED allows; with AUTOMATIC none are valid."""
    return SizeSteps((1500, 3000, 6000), 12000, 192000) if storage is StorageType.SSD else SizeSteps((6000, 12000), None)


def takes_efa(deployment: DeploymentType, *, metadata: bool) -> bool:
    """Return whether clients can reach the file system over EFA: PERSISTENT_2 with a metadata configuration.

    Source: FSx for Lustre guide, EFA-enabled file systems (2026-11-20).
    """
    return deployment is DeploymentType.PERSISTENT_2 and metadata


def lustre_versions(deployment: DeploymentType, *, metadata: bool = False) -> tuple[str, ...]:
    """Return the versions of a deployment type, the oldest first."""
    if deployment is not DeploymentType.PERSISTENT_2:
        return ("2.10", "2.12", "2.15")
    return ("2.15",) if metadata else ("2.12", "2.15")


def default_lustre_version(deployment: DeploymentType, *, metadata: bool = False) -> str:
    """Return the version that FSx uses by default: the oldest one."""
    return lustre_versions(deployment, metadata=metadata)[0]
