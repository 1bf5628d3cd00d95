"""Stopped EC2 instances: no declared property shows this state, but EC2's description of the instance does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from rackwright.drift.categories import categories
from rackwright.drift.difference import Category, DriftItem, Layer

_INSTANCE: Final = "aws:ec2/instance:Instance"
_WELL: Final = frozenset({"pending", "running"})
"""Instance states (EC2 User Guide, "Amazon EC2 instance state changes"). The engine reports a terminated instance as missing."""
_ASLEEP: Final = frozenset({"stopping", "stopped"})


def differences(events: Iterable[Mapping[str, Any]], may_sleep: Collection[str]) -> tuple[DriftItem, ...]:
    """Return stopped instances, from the events of a previewed refresh; expected on nodes that the scheduler stops to save power."""
    read = [happened["metadata"] for event in events if (happened := event.get("resOutputsEvent"))]
    instances = [one for one in read if one["type"] == _INSTANCE and one.get("new")]
    states = [(one, (one["new"].get("outputs") or {}).get("instanceState")) for one in instances]
    return tuple(_difference(one, state, may_sleep) for one, state in states if state and state not in _WELL)


def _difference(instance: Mapping[str, Any], state: str, may_sleep: Collection[str]) -> DriftItem:
    node = instance["urn"].rpartition("::")[2]
    sleeps = node in may_sleep and state in _ASLEEP
    start = f"run `aws ec2 start-instances --instance-ids {instance['new']['id']}`; the engine does not start existing instances"
    return DriftItem(
        layer=Layer.RESOURCES,
        node=node,
        subject="instance.status",
        declared="running, or stopped to save power" if sleeps else "running",
        live=state,
        category=Category.EXPECTED if sleeps else categories().resources["status"],
        remedy="no action needed: Slurm starts the instance when a job needs it" if sleeps else start,
    )
