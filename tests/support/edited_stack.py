"""Committed stack files before and after an edit, as the impact of the edit reads them."""

from __future__ import annotations

import copy
from typing import Any

from rackwright.impact import ClusterPlan
from rackwright.inventory import paths
from rackwright.plan import expand
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.load import load_cluster


def committed_stack(stack: str) -> dict[str, Any]:
    """Return the cluster that a committed stack file declares."""
    data, _ = yaml_reader.read(paths.stack_file(stack))
    found: dict[str, Any] = data["config"]["rackwright:cluster"]
    return found


def edited(declared: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a copy with other values at dotted paths, written with `__`; None removes the key."""
    new = copy.deepcopy(declared)
    for path, value in fields.items():
        *above, last = path.split("__")
        place = new
        for key in above:
            place = place.setdefault(key, {})
        if value is None:
            del place[last]
        else:
            place[last] = value
    return new


def described(declared: dict[str, Any], stack: str = "lab") -> ClusterPlan:
    """Return a cluster with its plan."""
    loaded = load_cluster(declared)
    assert loaded.cluster is not None, loaded.findings
    return ClusterPlan(loaded.cluster, expand(loaded.cluster, stack))
