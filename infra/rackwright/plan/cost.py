"""What a stack costs while it is up."""

from __future__ import annotations

from rackwright.model.cluster import Cluster
from rackwright.plan.shape import Cost, CostLine


def expand_cost(cluster: Cluster) -> Cost:
    """One line per group. Containers on this machine cost nothing."""
    lines = tuple(
        CostLine(group=name, count=group.count, usd_per_hour=0.0, source="containers on this machine")
        for name, group in cluster.groups.items()
    )
    return Cost(usd_per_hour=sum(line.usd_per_hour for line in lines), lines=lines)
