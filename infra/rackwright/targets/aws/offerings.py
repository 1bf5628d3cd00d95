"""Instance types that the zone does not have: refused before the first resource exists."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from rackwright.drivers.aws.account import Account
from rackwright.drivers.aws.offerings import offering_finding, zones_by_type
from rackwright.errors import UndeterminedError
from rackwright.inventory import applied, paths
from rackwright.model.targets.aws import AwsTarget
from rackwright.plan import Plan


def require_offered(plan: Plan) -> None:
    """Raise RunError where an instance is to be created whose type the zone does not have, naming the zones that have it.

    Types of instances that exist are not asked for. What AWS does not answer is a warning: without credentials `up` ends by itself.
    """
    target = plan.target
    assert isinstance(target, AwsTarget)
    wanted = _to_create(plan, _applied(plan.stack))
    if not wanted:
        return
    try:
        zones = zones_by_type(Account(target.region), frozenset(wanted.values()))
    except UndeterminedError as silent:
        pulumi.log.warn(f"target.zone: the zones that offer these types are unknown: {', '.join(sorted(set(wanted.values())))}: {silent}")
        return
    missing = [found for group, type_ in wanted.items() if (found := offering_finding(group, type_, target.zone, zones[type_]))]
    if missing:
        raise pulumi.RunError(f"stacks/Pulumi.{plan.stack}.yaml: {len(missing)} finding(s)\n" + "\n".join(map(str, missing)))


def _applied(stack: str) -> Plan | None:
    """Return what was applied last; None without a record that can be read: then all instances count as new."""
    try:
        found = applied.read(paths.applied(stack))
    except UndeterminedError:
        return None
    return found.plan if found is not None else None


def _to_create(plan: Plan, before: Plan | None) -> Mapping[str, str]:
    """Return the instance type of each group that gets an instance, or one of another type."""
    existing = {node.name: before.target.instance_type_of(node.group) for node in before.nodes} if before is not None else {}
    types = {node.group: plan.target.instance_type_of(node.group) for node in plan.nodes}
    new = {node.group for node in plan.nodes if existing.get(node.name) != types[node.group]}
    return {group: type_ for group, type_ in types.items() if group in new and type_ is not None}
