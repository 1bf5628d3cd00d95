"""Releases of ROCm with the driver of each, the systems that have packages, and the GPUs that they support."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from rackwright import catalog


@dataclass(frozen=True, slots=True)
class RocmRelease:
    """A release of ROCm."""

    version: str
    driver: str
    """Folder of the driver's release in AMD's repository: from ROCm 7.0 on, drivers have versions of their own."""
    driver_package: str
    """Pattern of the version of its package amdgpu-dkms, which contains the release: 1:6.16.6.30200100-2255209.24.04."""
    systems: frozenset[str]
    """Operating systems on which the role installs it. AMD supports others, some of them for single GPU models."""
    architectures: frozenset[str]


@cache
def rocm_releases() -> Mapping[str, RocmRelease]:
    """Return the known releases by version, oldest first."""
    return {
        row["version"]: RocmRelease(
            version=row["version"],
            driver=row["driver"],
            driver_package=row["driver_package"],
            systems=frozenset(row["systems"].split()),
            architectures=frozenset(row["architectures"].split()),
        )
        for row in catalog.rows("rocm")
    }
