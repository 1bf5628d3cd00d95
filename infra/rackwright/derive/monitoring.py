"""The node that runs Prometheus and Alertmanager."""

from __future__ import annotations

from rackwright.derive.nodes import members
from rackwright.model.cluster import Cluster
from rackwright.model.groups import Role
from rackwright.model.monitoring import Monitoring


def monitoring_node(cluster: Cluster) -> str | None:
    """Return the declared monitoring node, else the first controller that takes part; None without either, or without an own Prometheus."""
    if not isinstance(cluster.monitoring, Monitoring):
        return None
    if cluster.monitoring.node is not None:
        return cluster.monitoring.node
    return next((member.name for member in members(cluster) if member.is_in and Role.CONTROLLER in member.roles), None)
