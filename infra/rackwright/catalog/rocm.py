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
    systems: frozenset[str]
    """Operating systems on which the role installs it. AMD supports others, some of them for single GPU models."""
    architectures: frozenset[str]


@cache
def rocm_releases() -> Mapping[str, RocmRelease]:
    """Return the known releases by version, oldest first."""
    return {
        row["version"]: RocmRelease(
            row["version"], row["driver"], frozenset(row["systems"].split()), frozenset(row["architectures"].split())
        )
        for row in catalog.rows("rocm")
    }
