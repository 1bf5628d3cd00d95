"""Target `aws`: instances in a network of their own in one availability zone.

Never run on a real account; see docs/targets/aws.md.
"""

from __future__ import annotations

import pulumi

from rackwright.plan import Plan
from rackwright.targets import TargetResult, kubernetes
from rackwright.targets.aws.account import account
from rackwright.targets.aws.identity import profiles
from rackwright.targets.aws.limits import limits
from rackwright.targets.aws.network import network
from rackwright.targets.aws.node_groups import group
from rackwright.targets.aws.nodes import node
from rackwright.targets.aws.offerings import require_offered
from rackwright.targets.aws.storage import file_systems, volumes

__all__ = ["build"]


def build(plan: Plan, access_key: pulumi.Input[str]) -> TargetResult:
    """Create the network with its gateways, a placement and a template per group, and an instance per node, nodes that are out included."""
    require_offered(plan)
    site = account(plan)
    wires = network(site)
    shared = file_systems(site, wires)
    profile, roles = profiles(site), {node.group: node.roles for node in plan.nodes}
    groups = {name: group(site, name, profile.of(roles[name])) for name in site.target.instances if name in roles}
    made = {planned.name: node(site, wires, groups[planned.group], planned, access_key=access_key) for planned in plan.nodes}
    disks = volumes(site, made)
    limits(site, made, shared)
    return TargetResult(
        hosts={name: instance.record(disks.get(name, {})) for name, instance in made.items()},
        bundle=kubernetes.folder(plan),
        sources={name: shared_one.source for name, shared_one in shared.items()},
        host_keys={name: instance.host_key.private_key for name, instance in made.items()},
    )
