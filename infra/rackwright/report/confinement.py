"""Reason why Slurm does not confine jobs in a plan. Such a run omits the checks of confinement, and its report states the reason."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from rackwright.catalog.checks import Feature
from rackwright.inventory.reader import Inventory

_CONSTRAINED: Final = {
    Feature.CONSTRAINED_CORES: "the machine does not delegate `cpuset` to the nodes, or a node declares more CPUs than the machine has",
    Feature.CONSTRAINED_MEMORY: "the machine does not delegate `memory` to the nodes",
    Feature.CONSTRAINED_DEVICES: "only root can load the program that filters devices",
}
"""By feature: why a lab lacks it if its machine confines jobs to others (drivers/cgroups.py)."""
_NOTHING: Final = "no control groups for jobs: the machine has cgroup v1 or both versions, or does not delegate `memory` to the nodes"
_SYSTEM_CONTAINERS: Final = "no control groups for jobs: system containers have those of their host (target.machine_type)"


def why_unconfined(declared: Inventory, missing: Collection[Feature]) -> str:
    """Return why a check is omitted that lacks confined jobs only; empty for other missing features."""
    if not missing or not _CONSTRAINED.keys() >= set(missing):
        return ""
    if declared.target != "lab":
        return _SYSTEM_CONTAINERS
    if not declared.features & _CONSTRAINED.keys():
        return _NOTHING
    return "; ".join(words for feature, words in _CONSTRAINED.items() if feature in missing)
