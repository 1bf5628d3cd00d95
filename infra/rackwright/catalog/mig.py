"""MIG (Multi-Instance GPU): the profiles of each GPU model, and the valid placements of their instances on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from rackwright.catalog import rows


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A profile of GPU instances, for example 3g.40gb: three compute slices, 40 GB. Profiles with a suffix such as +me are omitted."""

    name: str
    compute_slices: int
    """Of 7, on an A30 of 4."""
    memory_slices: int
    """Of 8, on an A30 of 4."""
    starts: tuple[int, ...]
    """Memory slices at which an instance can begin (`nvidia-smi mig -lgipp`)."""

    @property
    def maximum(self) -> int:
        """Return the maximum number of instances of this profile on a GPU: one at each start, because its instances never overlap."""
        return len(self.starts)


@cache
def _by_model() -> Mapping[str, Mapping[str, MigProfile]]:
    found: dict[str, dict[str, MigProfile]] = {}
    for row in rows("mig"):
        starts = tuple(int(start) for start in row["starts"].split())
        profile = MigProfile(row["profile"], int(row["compute_slices"]), int(row["memory_slices"]), starts)
        for model in row["models"].split():
            found.setdefault(model, {})[profile.name] = profile
    return found


def mig_profiles(model: str) -> Mapping[str, MigProfile]:
    """Return the profiles of a GPU model by name, the smallest first; empty for a model without MIG or without a source."""
    return _by_model().get(model, {})


def mig_models() -> tuple[str, ...]:
    """Return the GPU models whose profiles are known."""
    return tuple(_by_model())
