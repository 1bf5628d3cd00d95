"""The model of stack files: frozen classes, units parsed once, unknown keys forbidden. The only I/O is reading the stack file."""

from rackwright.model.cluster import Cluster, Level, Refresh
from rackwright.model.finding import Finding, Severity, has_errors
from rackwright.model.groups import Role, State
from rackwright.stackfile.load import Loaded, find_stack_file, load_cluster, load_configured, load_stack

__all__ = [
    "Cluster",
    "Finding",
    "Level",
    "Loaded",
    "Refresh",
    "Role",
    "Severity",
    "State",
    "find_stack_file",
    "has_errors",
    "load_cluster",
    "load_configured",
    "load_stack",
]
