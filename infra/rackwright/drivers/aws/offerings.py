"""Zones of a region that offer an instance type, as this account sees them: AWS maps the letters of zone names per account."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rackwright.drivers.aws.account import Account
from rackwright.model.finding import Finding, Severity

RULE = "online-type-offered"


def zones_by_type(account: Account, types: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the names of the zones that have each type. Raise UndeterminedError where AWS does not respond.

    DescribeInstanceTypeOfferings with LocationType availability-zone: names such as us-east-1a as this account sees them, not zone IDs.
    """
    by_type = [{"Name": "instance-type", "Values": sorted(types)}]
    offered = list(
        account.every("ec2", "describe_instance_type_offerings", "InstanceTypeOfferings", LocationType="availability-zone", Filters=by_type)
    )
    return {type_: tuple(sorted(one["Location"] for one in offered if one["InstanceType"] == type_)) for type_ in types}


def offering_finding(group: str, type_: str, zone: str, zones: Collection[str]) -> Finding | None:
    """Return the finding about a group whose type the zone does not offer; None where the zone offers it."""
    if zone in zones:
        return None
    hint = f"offered in {', '.join(zones)}" if zones else f"no zone of {zone[:-1]} offers it: choose another region or type"
    return Finding(Severity.ERROR, RULE, f"target.instances.{group}.type", f"{type_} is not offered in {zone}", hint)
