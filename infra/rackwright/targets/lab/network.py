"""The lab's one network."""

from __future__ import annotations

import pulumi

from rackwright.plan import Plan
from rackwright.targets import resources


def network(plan: Plan, label: resources.StackMarker) -> resources.Network:
    """Create a bridge with the planned range."""
    return resources.Network("network", stack=plan.stack, cidr=plan.network.cidr, opts=pulumi.ResourceOptions(depends_on=[label]))
