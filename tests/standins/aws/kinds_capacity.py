"""Locations of instances: placement groups, reserved and prepaid capacity, interfaces created beforehand."""

from __future__ import annotations

from typing import Any, Final

from standins.aws.account import Account
from standins.aws.kind import Create, ResourceType, chosen, ec2, fill, listed, removed
from standins.aws.naming import Autoname
from standins.aws.state import Properties
from standins.aws.tags import Described, Ec2Tags, Tags


def _reserved(described: Described) -> bool:
    """Return whether the reservation is valid; cancelled and expired ones stay listed."""
    return described["State"] not in ("cancelled", "expired")


def _change_reservation(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    asked = chosen(news, "instanceCount", "endDate", "endDateType", "instanceMatchCriteria")
    kind = KINDS["aws:ec2/capacityReservation:CapacityReservation"]
    account.call("ec2", "ModifyCapacityReservation", CapacityReservationId=ident, **fill(account, kind, "ModifyCapacityReservation", asked))


def _reservation_outs(account: Account, ident: str, described: Described, inputs: Properties) -> Properties:
    created = described.get("CreateDate")
    return {
        "arn": described["CapacityReservationArn"],
        "instanceCount": described["TotalInstanceCount"],
        "createdDate": created.strftime("%Y-%m-%dT%H:%M:%SZ") if created else None,
    }


def _forget(account: Account, ident: str, inputs: Properties) -> None:
    """Do nothing: a capacity block is paid and runs to its end."""


def _make_interface(account: Account, kind: ResourceType, inputs: Properties, tags: Tags) -> str:
    addresses = inputs.get("privateIps") or []
    rest = {key: value for key, value in inputs.items() if key != "privateIps"}
    asked: dict[str, Any] = fill(account, kind, "CreateNetworkInterface", rest)
    if addresses:
        asked["PrivateIpAddresses"] = [{"PrivateIpAddress": one, "Primary": not place} for place, one in enumerate(addresses)]
    tagged = kind.tags.at_creation(tags) if kind.tags else {}
    return str(account.call("ec2", "CreateNetworkInterface", **asked, **tagged)["NetworkInterface"]["NetworkInterfaceId"])


def _interface_outs(account: Account, ident: str, described: Described, inputs: Properties) -> Properties:
    return {
        "arn": account.arn("ec2", f"network-interface/{ident}"),
        "securityGroups": [one["GroupId"] for one in described["Groups"]],
        "privateIps": [one["PrivateIpAddress"] for one in described["PrivateIpAddresses"]],
    }


def _change_interface(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    for key, asked in (
        ("securityGroups", {"Groups": news.get("securityGroups")}),
        ("description", {"Description": {"Value": news.get("description")}}),
        ("sourceDestCheck", {"SourceDestCheck": {"Value": news.get("sourceDestCheck")}}),
    ):
        if key in news and news[key] != olds.get(key):
            account.call("ec2", "ModifyNetworkInterfaceAttribute", NetworkInterfaceId=ident, **asked)


def _drop_interface(account: Account, ident: str, inputs: Properties) -> None:
    found = account.call("ec2", "DescribeNetworkInterfaces", NetworkInterfaceIds=[ident])["NetworkInterfaces"][0]
    if found.get("Attachment"):
        account.call("ec2", "DetachNetworkInterface", AttachmentId=found["Attachment"]["AttachmentId"], Force=True)
    account.call("ec2", "DeleteNetworkInterface", NetworkInterfaceId=ident)


_BLOCK: Final = "aws:ec2/capacityBlockReservation:CapacityBlockReservation"
_RESERVATIONS: Final = listed("ec2", "DescribeCapacityReservations", "CapacityReservationIds", "CapacityReservations", _reserved)

_ROWS: Final = (
    ec2(
        "aws:ec2/placementGroup:PlacementGroup",
        "PlacementGroup",
        make=lambda account, kind, inputs, tags: (
            account.call(
                "ec2",
                "CreatePlacementGroup",
                **fill(account, kind, "CreatePlacementGroup", inputs),
                **Ec2Tags("placement-group").at_creation(tags),
            )
            and str(inputs["name"])
        ),
        look=listed("ec2", "DescribePlacementGroups", "GroupNames", "PlacementGroups"),
        drop=removed("ec2", "DeletePlacementGroup", "GroupName"),
        force=frozenset({"name", "strategy", "partitionCount", "spreadLevel"}),
        renames={"name": "GroupName", "arn": "GroupArn", "placementGroupId": "GroupId"},
        tags=Ec2Tags("placement-group", "GroupId"),
        autoname=Autoname(),
    ),
    ec2(
        "aws:ec2/capacityReservation:CapacityReservation",
        "CapacityReservation",
        tag="capacity-reservation",
        look=_RESERVATIONS,
        drop=removed("ec2", "CancelCapacityReservation", "CapacityReservationId"),
        force=frozenset(
            {
                "availabilityZone",
                "instancePlatform",
                "instanceType",
                "ebsOptimized",
                "ephemeralStorage",
                "outpostArn",
                "placementGroupArn",
                "tenancy",
            }
        ),
        settle=dict.fromkeys(("instanceCount", "endDate", "endDateType", "instanceMatchCriteria"), _change_reservation),
        outs=_reservation_outs,
    ),
    ec2(
        _BLOCK,
        "CapacityReservation",
        tag="capacity-reservation",
        make=Create("PurchaseCapacityBlock", "CapacityReservation", "CapacityReservationId"),
        look=_RESERVATIONS,
        drop=_forget,
        force=frozenset({"capacityBlockOfferingId", "instancePlatform"}),
        local=frozenset({"timeouts"}),
        outs=_reservation_outs,
    ),
    ec2(
        "aws:ec2/networkInterface:NetworkInterface",
        "NetworkInterface",
        tag="network-interface",
        make=_make_interface,
        drop=_drop_interface,
        force=frozenset({"subnetId", "interfaceType", "privateIp"}),
        settle=dict.fromkeys(("securityGroups", "description", "sourceDestCheck"), _change_interface),
        late=frozenset({"sourceDestCheck"}),
        renames={"securityGroups": "Groups", "privateIp": "PrivateIpAddress"},
        outs=_interface_outs,
    ),
)
KINDS: Final = {kind.token: kind for kind in _ROWS}
