"""Clusters of committed stack files, edited, and what an edit does in words."""

from __future__ import annotations

import copy
from typing import Any

from rackwright.impact import ClusterPlan, impact
from rackwright.inventory import paths
from rackwright.plan import expand
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.load import load_cluster


def written(stack: str) -> dict[str, Any]:
    """What a committed stack file says."""
    data, _ = yaml_reader.read(paths.stack_file(stack))
    found: dict[str, Any] = data["config"]["rackwright:cluster"]
    return found


LAB, HOSTS, KUBERNETES = written("lab"), written("budget-vms"), written("lab-k8s")


def described(said: dict[str, Any]) -> ClusterPlan:
    """A cluster with its plan."""
    loaded = load_cluster(said)
    assert loaded.cluster is not None, loaded.findings
    return ClusterPlan(loaded.cluster, expand(loaded.cluster, "lab"))


def edited(said: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The same with other values at dotted paths (written with `__`); None takes the key away."""
    new = copy.deepcopy(said)
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


def told(said: dict[str, Any], **fields: Any) -> list[str]:
    """What the edit does, in words."""
    return [str(consequence).splitlines()[0] for consequence in impact(described(said), described(edited(said, **fields)))]
