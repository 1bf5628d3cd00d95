"""The model of stack files: frozen classes, units parsed once, unknown keys forbidden."""

from rackwright.model.cluster import Cluster, Level, Refresh
from rackwright.model.finding import Finding, Severity, has_errors
from rackwright.model.groups import Role, State

__all__ = [
    "Cluster",
    "Finding",
    "Level",
    "Refresh",
    "Role",
    "Severity",
    "State",
    "has_errors",
]
