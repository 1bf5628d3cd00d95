"""Target `hosts`: machines that exist already, over SSH. Nothing is made; each machine is adopted, and let go when it leaves."""

from __future__ import annotations

from typing import Any

import pulumi

from rackwright.model.targets.hosts import HostsTarget
from rackwright.plan import Plan
from rackwright.targets import TargetResult, kubernetes
from rackwright.targets.hosts.network import way
from rackwright.targets.hosts.nodes import host

__all__ = ["build"]


def build(plan: Plan, access_key: pulumi.Input[str]) -> TargetResult:
    """Each node that is in, with the key it showed and how it is reached."""
    target = plan.target
    assert isinstance(target, HostsTarget)
    records: dict[str, dict[str, Any]] = {}
    for node in plan.nodes:
        found = host(plan, target, node, access_key)
        reached = way(target, node)
        records[node.name] = {
            "address": reached["address"],
            "port": reached["port"],
            "user": reached["user"],
            "public_key": found.public_key,
            "incarnation": found.incarnation,
        }
    return TargetResult(records, bundle=kubernetes.folder(plan))
