"""Lab volumes: what must survive the loss of a container."""

from __future__ import annotations

import pulumi

from rackwright.plan import Plan
from rackwright.targets import resources


def volumes(plan: Plan, label: resources.StackMarker) -> dict[str, dict[str, resources.Volume]]:
    """Return node -> mount -> volume, for every volume of the plan."""
    found_by = pulumi.ResourceOptions(depends_on=[label])
    made: dict[str, dict[str, resources.Volume]] = {}
    for volume in plan.volumes:
        made.setdefault(volume.node, {})[volume.mount] = resources.Volume(volume.name, stack=plan.stack, opts=found_by)
    return made
