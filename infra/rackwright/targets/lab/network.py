"""The lab's one network."""

from __future__ import annotations

from rackwright.plan import Plan
from rackwright.targets import resources


def network(plan: Plan) -> resources.Network:
    """A bridge of the planned range."""
    return resources.Network("network", stack=plan.stack, cidr=plan.network.cidr)
