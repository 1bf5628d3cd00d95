"""Disks of virtual machines: what must survive the loss of a machine."""

from __future__ import annotations

from typing import Final

import pulumi

from rackwright.plan import Plan
from rackwright.targets.vm import resources

_DEFAULT_MIB: Final = 8192
"""Size of a disk whose size the plan leaves open, for databases and states. The file is sparse."""


def volumes(plan: Plan, marker: resources.MachineStackMarker) -> dict[str, dict[str, resources.MachineVolume]]:
    """Return node -> mount -> disk, for every volume of the plan."""
    found_by = pulumi.ResourceOptions(depends_on=[marker])
    made: dict[str, dict[str, resources.MachineVolume]] = {}
    for volume in plan.volumes:
        size = volume.size_mib or _DEFAULT_MIB
        made.setdefault(volume.node, {})[volume.mount] = resources.MachineVolume(
            volume.name, stack=plan.stack, size_mib=size, opts=found_by
        )
    return made
