"""Target `hosts`: existing machines over SSH. No machine is created; each is adopted, and released when it leaves the stack."""

from __future__ import annotations

from typing import Any

import pulumi

from rackwright.model.targets.hosts import HostsTarget
from rackwright.plan import Plan
from rackwright.targets import TargetResult, kubernetes
from rackwright.targets.hosts.network import ssh_route
from rackwright.targets.hosts.nodes import host

__all__ = ["build"]


def build(plan: Plan, access_key: pulumi.Input[str]) -> TargetResult:
    """Create a resource for each node that is in, with its host key and its SSH route."""
    target = plan.target
    assert isinstance(target, HostsTarget)
    records: dict[str, dict[str, Any]] = {}
    for node in plan.nodes:
        found = host(plan, target, node, access_key)
        reached = ssh_route(target, node)
        records[node.name] = {
            "address": reached["address"],
            "port": reached["port"],
            "user": reached["user"],
            "public_key": found.public_key,
            "instance_uid": found.instance_uid,
        }
    return TargetResult(records, bundle=kubernetes.folder(plan))
