"""Placement groups, capacity reservations and capacity blocks, which moto does not have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final

from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response
from moto.moto_api._internal import mock_random as random

from standins.moto_server.store import keep_tags, live_tags, put, shelf

_GONE: Final = ("cancelled", "expired")
_OFFERINGS = count(1)
"""Each query for capacity blocks returns new ids, as on AWS."""


def install() -> None:
    """Add the operations to moto's EC2."""
    put(
        EC2Response,
        create_placement_group,
        describe_placement_groups,
        delete_placement_group,
        create_capacity_reservation,
        describe_capacity_reservations,
        modify_capacity_reservation,
        cancel_capacity_reservation,
        describe_capacity_block_offerings,
        purchase_capacity_block,
    )


def placement_group(backend: Any, name: str) -> dict[str, Any]:
    """Return a placement group by name."""
    group = shelf(backend, "placement_groups").get(name)
    if group is None:
        raise EC2ClientError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
    return group


def reservation(backend: Any, ident: str) -> dict[str, Any]:
    """Return a capacity reservation by id."""
    found = shelf(backend, "capacity_reservations").get(ident)
    if found is None:
        raise EC2ClientError("InvalidCapacityReservationId.NotFound", f"The capacity reservation '{ident}' does not exist")
    return found


def take_capacity(backend: Any, ident: str, instances: int) -> None:
    """Fail unless the reservation has space for that many more instances."""
    found = reservation(backend, ident)
    if found["State"] in _GONE or _available(backend, found) < instances:
        raise EC2ClientError("ReservationCapacityExceeded", f"The capacity reservation {ident} has no room for {instances} more")


def create_placement_group(self: EC2Response) -> ActionResult:
    """Implement CreatePlacementGroup."""
    params, groups = self.params, shelf(self.ec2_backend, "placement_groups")
    name = params["GroupName"]
    if name in groups:
        raise EC2ClientError("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
    ident = f"pg-{random.get_random_hex(17)}"
    groups[name] = {
        "GroupName": name,
        "GroupId": ident,
        "GroupArn": _arn(self, f"placement-group/{name}"),
        "State": "available",
        "Strategy": params.get("Strategy", "cluster"),
        "SpreadLevel": params.get("SpreadLevel"),
        "PartitionCount": params.get("PartitionCount"),
    }
    keep_tags(self.ec2_backend, ident, params)
    return ActionResult({"PlacementGroup": _tagged(self, groups[name], "GroupId")})


def describe_placement_groups(self: EC2Response) -> ActionResult:
    """Implement DescribePlacementGroups; an unknown name is an error."""
    groups = shelf(self.ec2_backend, "placement_groups")
    found = [placement_group(self.ec2_backend, name) for name in self.params.get("GroupNames") or groups]
    return ActionResult({"PlacementGroups": [_tagged(self, group, "GroupId") for group in found]})


def delete_placement_group(self: EC2Response) -> ActionResult:
    """Implement DeletePlacementGroup; refused while an instance is in the group."""
    name = self.params["GroupName"]
    placement_group(self.ec2_backend, name)
    instances = [one for one in self.ec2_backend.all_instances() if one.state != "terminated" and one.placement.group_name == name]
    if instances:
        raise EC2ClientError("InvalidPlacementGroup.InUse", f"The placement group {name} is in use and may not be deleted.")
    del shelf(self.ec2_backend, "placement_groups")[name]
    return EmptyResult()


def create_capacity_reservation(self: EC2Response) -> ActionResult:
    """Implement CreateCapacityReservation; active at once."""
    params = self.params
    made = _reserve(self, params["InstanceType"], params["InstanceCount"], params.get("AvailabilityZone"), "default")
    wanted = ("EndDate", "EndDateType", "InstancePlatform", "InstanceMatchCriteria", "EbsOptimized", "EphemeralStorage", "Tenancy")
    made |= {key: params[key] for key in (*wanted, "OutpostArn", "PlacementGroupArn") if key in params}
    keep_tags(self.ec2_backend, made["CapacityReservationId"], params)
    return ActionResult({"CapacityReservation": _shown(self, made)})


def describe_capacity_reservations(self: EC2Response) -> ActionResult:
    """Implement DescribeCapacityReservations; cancelled ones stay listed, as on AWS."""
    known = shelf(self.ec2_backend, "capacity_reservations")
    found = [reservation(self.ec2_backend, ident) for ident in self.params.get("CapacityReservationIds") or known]
    return ActionResult({"CapacityReservations": [_shown(self, one) for one in found]})


def modify_capacity_reservation(self: EC2Response) -> ActionResult:
    """Implement ModifyCapacityReservation: count, end and match criteria."""
    params = self.params
    found = reservation(self.ec2_backend, params["CapacityReservationId"])
    if "InstanceCount" in params:
        found["TotalInstanceCount"] = params["InstanceCount"]
    found |= {key: params[key] for key in ("EndDate", "EndDateType", "InstanceMatchCriteria") if key in params}
    return ActionResult({"Return": True})


def cancel_capacity_reservation(self: EC2Response) -> ActionResult:
    """Implement CancelCapacityReservation; a capacity block cannot be cancelled."""
    found = reservation(self.ec2_backend, self.params["CapacityReservationId"])
    if found["ReservationType"] == "capacity-block":
        raise EC2ClientError("Unsupported", "A capacity block cannot be cancelled")
    found["State"] = "cancelled"
    return ActionResult({"Return": True})


def describe_capacity_block_offerings(self: EC2Response) -> ActionResult:
    """Implement DescribeCapacityBlockOfferings: one offering, under a new id at each call. Its fee is invented."""
    params = self.params
    begins = datetime.now(UTC) + timedelta(days=1)
    hours = params["CapacityDurationHours"]
    offering = {
        "CapacityBlockOfferingId": f"cb-{next(_OFFERINGS):017x}",
        "InstanceType": params["InstanceType"],
        "InstanceCount": params.get("InstanceCount", 1),
        "AvailabilityZone": f"{self.region}a",
        "CapacityBlockDurationHours": hours,
        "StartDate": begins,
        "EndDate": begins + timedelta(hours=hours),
        "UpfrontFee": "1.0",
        "CurrencyCode": "USD",
        "Tenancy": "default",
    }
    shelf(self.ec2_backend, "offerings")[offering["CapacityBlockOfferingId"]] = offering
    return ActionResult({"CapacityBlockOfferings": [offering]})


def purchase_capacity_block(self: EC2Response) -> ActionResult:
    """Implement PurchaseCapacityBlock: the offering becomes a reservation that is paid and waits for its start."""
    params = self.params
    offering = shelf(self.ec2_backend, "offerings").pop(params["CapacityBlockOfferingId"], None)
    if offering is None:
        raise EC2ClientError("InvalidCapacityBlockOfferingId.NotFound", f"no offering {params['CapacityBlockOfferingId']}")
    made = _reserve(self, offering["InstanceType"], offering["InstanceCount"], offering["AvailabilityZone"], "capacity-block")
    made |= {
        "InstancePlatform": params["InstancePlatform"],
        "StartDate": offering["StartDate"],
        "EndDate": offering["EndDate"],
        "EndDateType": "limited",
        "InstanceMatchCriteria": "targeted",
        "State": "scheduled",
    }
    keep_tags(self.ec2_backend, made["CapacityReservationId"], params)
    return ActionResult({"CapacityReservation": _shown(self, made)})


def _reserve(self: EC2Response, instance_type: str, instances: int, zone: str | None, kind: str) -> dict[str, Any]:
    ident = f"cr-{random.get_random_hex(17)}"
    made = {
        "CapacityReservationId": ident,
        "CapacityReservationArn": _arn(self, f"capacity-reservation/{ident}"),
        "OwnerId": self.current_account,
        "InstanceType": instance_type,
        "TotalInstanceCount": int(instances),
        "AvailabilityZone": zone,
        "State": "active",
        "Tenancy": "default",
        "EndDateType": "unlimited",
        "InstanceMatchCriteria": "open",
        "CreateDate": datetime.now(UTC),
        "StartDate": datetime.now(UTC),
        "ReservationType": kind,
    }
    shelf(self.ec2_backend, "capacity_reservations")[ident] = made
    return made


def _available(backend: Any, found: dict[str, Any]) -> int:
    ident = found["CapacityReservationId"]
    users = [one for one in backend.all_instances() if one.state != "terminated" and getattr(one, "capacity_reservation_id", None) == ident]
    total: int = found["TotalInstanceCount"]
    return total - len(users)


def _shown(self: EC2Response, found: dict[str, Any]) -> dict[str, Any]:
    return {**_tagged(self, found, "CapacityReservationId"), "AvailableInstanceCount": _available(self.ec2_backend, found)}


def _tagged(self: EC2Response, found: dict[str, Any], ident: str) -> dict[str, Any]:
    known = {key: value for key, value in found.items() if value is not None}
    return {**known, "Tags": live_tags(self.ec2_backend, found[ident])}


def _arn(self: EC2Response, rest: str) -> str:
    return f"arn:{self.partition}:ec2:{self.region}:{self.current_account}:{rest}"
