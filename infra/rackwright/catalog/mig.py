"""MIG (Multi-Instance GPU): the profiles of each GPU model, and the valid placements of their instances on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from rackwright.catalog import rows, site


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A profile of GPU instances, for example 3g.40gb: three compute slices, 40 GB. Profiles with a suffix such as +me are omitted."""

    name: str
    compute_slices: int
    """Of 7, on an A30 and an RTX PRO of 4."""
    memory_slices: int
    """Of 8, on an A30 and an RTX PRO of 4."""
    starts: tuple[int, ...]
    """Memory slices at which an instance can begin (`nvidia-smi mig -lgipp`)."""

    def gres_type(self, model: str) -> str:
        """Return the type under which Slurm allocates the instances of a GPU model.

        >>> MigProfile("3g.40gb", 3, 4, (0, 4)).gres_type("h100")
        'h100_3g.40gb'
        """
        return f"{model}_{self.name}"

    @property
    def kubernetes_resource(self) -> str:
        """Return the resource of the instances (k8s-device-plugin, MIG_STRATEGY=mixed).

        >>> MigProfile("3g.40gb", 3, 4, (0, 4)).kubernetes_resource
        'nvidia.com/mig-3g.40gb'
        """
        return f"nvidia.com/mig-{self.name}"

    @property
    def maximum(self) -> int:
        """Return the maximum number of instances of this profile on a GPU: one at each start, because its instances never overlap."""
        return len(self.starts)


@cache
def _of_product() -> Mapping[str, Mapping[str, MigProfile]]:
    found: dict[str, dict[str, MigProfile]] = {}
    for row in rows("mig"):
        starts = tuple(int(start) for start in row["starts"].split())
        profile = MigProfile(row["profile"], int(row["compute_slices"]), int(row["memory_slices"]), starts)
        for model in row["models"].split():
            found.setdefault(model, {})[profile.name] = profile
    return found


def _of_site(of_site: site.SiteCatalog) -> dict[str, Mapping[str, MigProfile]]:
    return {
        model: {name: MigProfile(name, one.compute_slices, one.memory_slices, one.starts) for name, one in row.mig.profiles.items()}
        for model, row in of_site.rows.gpus.items()
        if row.mig is not None
    }


@cache
def _by_model(of_site: site.SiteCatalog) -> Mapping[str, Mapping[str, MigProfile]]:
    return {**_of_site(of_site), **_of_product()}


def mig_profiles(model: str) -> Mapping[str, MigProfile]:
    """Return the profiles of a GPU model by name, the smallest first; empty for a model without MIG or without a source.

    The rows are the product's and the site's.
    """
    return _by_model(site.catalog()).get(model, {})


def mig_models() -> tuple[str, ...]:
    """Return the GPU models whose profiles are known."""
    return tuple(_by_model(site.catalog()))
