"""Instances, and the templates they are launched from."""

from __future__ import annotations

import base64
from typing import Any, Final

from standins.aws.account import Account
from standins.aws.kind import ResourceType, SetProperty, Unsupported, ec2, fill, removed
from standins.aws.naming import Autoname
from standins.aws.request import pairs
from standins.aws.state import Properties
from standins.aws.tags import Described, Tags

_INSTANCE: Final = "aws:ec2/instance:Instance"
_TEMPLATE: Final = "aws:ec2/launchTemplate:LaunchTemplate"
_OUTSIDE: Final = frozenset({"name", "namePrefix", "description", "tags", "region", "defaultVersion", "updateDefaultVersion"})
"""Inputs of a template that are no part of its data."""


def _run(account: Account, kind: ResourceType, inputs: Properties, tags: Tags) -> str:
    asked = fill(account, kind, "RunInstances", _launch(inputs))
    volumes = inputs.get("volumeTags")
    specifications = [{"ResourceType": sort, "Tags": pairs(found)} for sort, found in (("instance", tags), ("volume", volumes)) if found]
    tagged = {"TagSpecifications": specifications} if specifications else {}
    made = account.call("ec2", "RunInstances", MinCount=1, MaxCount=1, **asked, **tagged)
    return str(made["Instances"][0]["InstanceId"])


def _launch(inputs: Properties) -> Properties:
    """Return the inputs in the groups of RunInstances."""
    rest = {key: value for key, value in inputs.items() if key not in _REGROUPED}
    template = inputs.get("launchTemplate") or {}
    named = {"id": "launchTemplateId", "name": "launchTemplateName", "version": "version"}
    placement = {
        "availabilityZone": inputs.get("availabilityZone"),
        "groupName": inputs.get("placementGroup"),
        "groupId": inputs.get("placementGroupId"),
        "partitionNumber": inputs.get("placementPartitionNumber"),
        "tenancy": inputs.get("tenancy"),
        "hostId": inputs.get("hostId"),
    }
    text = inputs.get("userDataBase64")
    grouped = {
        "launchTemplate": {named[key]: value for key, value in template.items()},
        "placement": {key: value for key, value in placement.items() if value is not None},
        "blockDeviceMappings": _disks(inputs),
        "userData": base64.b64decode(text) if text else inputs.get("userData"),
        "iamInstanceProfile": {"name": inputs["iamInstanceProfile"]} if inputs.get("iamInstanceProfile") else None,
        "monitoring": {"enabled": inputs["monitoring"]} if "monitoring" in inputs else None,
        "hibernationOptions": {"configured": inputs["hibernation"]} if "hibernation" in inputs else None,
        **_interfaces(inputs),
    }
    return {**rest, **{key: value for key, value in grouped.items() if value}}


def _interfaces(inputs: Properties) -> Properties:
    """Return the inputs of interfaces; if there are any, subnet and groups belong to the first."""
    if inputs.get("primaryNetworkInterface"):
        return {"networkInterfaces": [{"deviceIndex": 0, **inputs["primaryNetworkInterface"]}]}
    if inputs.get("networkInterfaces"):
        return {"networkInterfaces": inputs["networkInterfaces"]}
    alone = {
        "subnetId": inputs.get("subnetId"),
        "vpcSecurityGroupIds": inputs.get("vpcSecurityGroupIds"),
        "privateIp": inputs.get("privateIp"),
    }
    if "associatePublicIpAddress" not in inputs:
        return alone
    first = {
        "deviceIndex": 0,
        "subnetId": inputs.get("subnetId"),
        "groups": inputs.get("vpcSecurityGroupIds"),
        "privateIpAddress": inputs.get("privateIp"),
        "associatePublicIpAddress": inputs["associatePublicIpAddress"],
    }
    return {"networkInterfaces": [{key: value for key, value in first.items() if value is not None}]}


def _disks(inputs: Properties) -> list[Properties]:
    root = [{"deviceName": "/dev/sda1", **inputs["rootBlockDevice"]}] if inputs.get("rootBlockDevice") else []
    made = []
    for disk in [*root, *(inputs.get("ebsBlockDevices") or [])]:
        ebs = {key: value for key, value in disk.items() if key not in ("deviceName", "tags", "tagsAll")}
        made.append({"deviceName": disk["deviceName"], "ebs": {"deleteOnTermination": True, **ebs}})
    return made


_REGROUPED: Final = frozenset(
    {
        "launchTemplate", "availabilityZone", "placementGroup", "placementGroupId", "placementPartitionNumber", "tenancy", "hostId",
        "rootBlockDevice", "ebsBlockDevices", "userData", "userDataBase64", "iamInstanceProfile", "monitoring", "hibernation",
        "primaryNetworkInterface", "networkInterfaces", "subnetId", "vpcSecurityGroupIds", "privateIp", "associatePublicIpAddress",
        "volumeTags",
    }
)  # fmt: skip


def _instance(account: Account, ident: str, inputs: Properties) -> Described | None:
    """Return the instance; a terminated one, which stays listed for an hour, counts as deleted."""
    for reservation in account.call("ec2", "DescribeInstances", InstanceIds=[ident])["Reservations"]:
        for found in reservation["Instances"]:
            if found["State"]["Name"] not in ("terminated", "shutting-down"):
                return dict(found)
    return None


def _instance_outs(account: Account, ident: str, described: Described, inputs: Properties) -> Properties:
    interfaces = sorted(
        described["NetworkInterfaces"], key=lambda one: (one["Attachment"].get("NetworkCardIndex", 0), one["Attachment"]["DeviceIndex"])
    )
    placement = described.get("Placement") or {}
    # An instance's groups are those of its first interface; moto reports them of the interface alone.
    groups = interfaces[0]["Groups"] if interfaces else described.get("SecurityGroups") or []
    return {
        "arn": account.arn("ec2", f"instance/{ident}"),
        "ami": described["ImageId"],
        "availabilityZone": placement.get("AvailabilityZone"),
        "placementGroup": placement.get("GroupName") or None,
        "tenancy": placement.get("Tenancy"),
        "instanceState": described["State"]["Name"],
        "privateIp": described.get("PrivateIpAddress"),
        "privateDns": described.get("PrivateDnsName"),
        "publicIp": described.get("PublicIpAddress") or "",
        "publicDns": described.get("PublicDnsName") or "",
        "primaryNetworkInterfaceId": interfaces[0]["NetworkInterfaceId"] if interfaces else None,
        "iamInstanceProfile": ((described.get("IamInstanceProfile") or {}).get("Arn") or "").rpartition("/")[2] or None,
        "vpcSecurityGroupIds": sorted({group["GroupId"] for group in groups}),
        "monitoring": (described.get("Monitoring") or {}).get("State") == "enabled",
        # Absent from the description, or different from the input.
        **{
            key: inputs.get(key)
            for key in (
                "userData", "userDataBase64", "networkInterfaces", "rootBlockDevice", "ebsBlockDevices", "launchTemplate",
                "associatePublicIpAddress", "primaryNetworkInterface", "instanceMarketOptions",
            )
        },
    }  # fmt: skip


def _attribute(key: str, name: str) -> SetProperty:
    def settle(account: Account, ident: str, news: Properties, olds: Properties) -> None:
        account.call("ec2", "ModifyInstanceAttribute", InstanceId=ident, **{key: {"Value": news[name]}})

    return settle


def _set_groups(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    account.call("ec2", "ModifyInstanceAttribute", InstanceId=ident, Groups=news["vpcSecurityGroupIds"])


def _stopped(change: SetProperty) -> SetProperty:
    """Return a setter that makes the change while the instance is stopped, as EC2 requires."""

    def settle(account: Account, ident: str, news: Properties, olds: Properties) -> None:
        account.call("ec2", "StopInstances", InstanceIds=[ident])
        change(account, ident, news, olds)
        account.call("ec2", "StartInstances", InstanceIds=[ident])

    return settle


def _set_user_data(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    """Encode user data once more, since moto decodes it twice."""
    text = news.get("userDataBase64") or base64.b64encode((news.get("userData") or "").encode()).decode()
    account.call("ec2", "ModifyInstanceAttribute", InstanceId=ident, UserData={"Value": text})


def _set_metadata(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    asked = fill(account, KINDS[_INSTANCE], "ModifyInstanceMetadataOptions", news["metadataOptions"])
    account.call("ec2", "ModifyInstanceMetadataOptions", InstanceId=ident, **asked)


def _replaced_if(olds: Properties, news: Properties) -> frozenset[str]:
    return frozenset({"userData", "userDataBase64"}) if news.get("userDataReplaceOnChange") else frozenset()


def _terminate(account: Account, ident: str, inputs: Properties) -> None:
    account.call("ec2", "TerminateInstances", InstanceIds=[ident])


def _make_template(account: Account, kind: ResourceType, inputs: Properties, tags: Tags) -> str:
    tagged = kind.tags.at_creation(tags) if kind.tags else {}
    described = {"VersionDescription": inputs["description"]} if inputs.get("description") else {}
    data = _data(account, inputs)
    made = account.call("ec2", "CreateLaunchTemplate", LaunchTemplateName=inputs["name"], LaunchTemplateData=data, **described, **tagged)
    return str(made["LaunchTemplate"]["LaunchTemplateId"])


def _data(account: Account, inputs: Properties) -> dict[str, Any]:
    rest = {key: value for key, value in inputs.items() if key not in _OUTSIDE}
    return fill(account, KINDS[_TEMPLATE], "CreateLaunchTemplate", rest, within="LaunchTemplateData")


def _template(account: Account, ident: str, inputs: Properties) -> Described | None:
    found = account.call("ec2", "DescribeLaunchTemplates", LaunchTemplateIds=[ident])["LaunchTemplates"]
    if not found:
        return None
    latest = account.call("ec2", "DescribeLaunchTemplateVersions", LaunchTemplateId=ident, Versions=["$Latest"])["LaunchTemplateVersions"][
        0
    ]
    return {**latest["LaunchTemplateData"], **found[0]}


def _template_outs(account: Account, ident: str, described: Described, inputs: Properties) -> Properties:
    return {
        "arn": account.arn("ec2", f"launch-template/{ident}"),
        "latestVersion": described["LatestVersionNumber"],
        "defaultVersion": described["DefaultVersionNumber"],
        "userData": inputs.get("userData"),
        "tagSpecifications": inputs.get("tagSpecifications"),
    }


def _new_version(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    described = {"VersionDescription": news["description"]} if news.get("description") else {}
    made = account.call("ec2", "CreateLaunchTemplateVersion", LaunchTemplateId=ident, LaunchTemplateData=_data(account, news), **described)
    if news.get("updateDefaultVersion"):
        _set_default(account, ident, {"defaultVersion": made["LaunchTemplateVersion"]["VersionNumber"]}, olds)


def _set_default(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    if "defaultVersion" not in news:
        raise Unsupported("the stand-in cannot take the default version of a launch template back")
    account.call("ec2", "ModifyLaunchTemplate", LaunchTemplateId=ident, DefaultVersion=str(news["defaultVersion"]))


_DATA: Final = (
    "blockDeviceMappings", "capacityReservationSpecification", "cpuOptions", "creditSpecification", "disableApiStop",
    "disableApiTermination", "ebsOptimized", "iamInstanceProfile", "imageId", "instanceInitiatedShutdownBehavior",
    "instanceMarketOptions", "instanceType", "keyName", "maintenanceOptions", "metadataOptions", "monitoring", "networkInterfaces",
    "placement", "privateDnsNameOptions", "securityGroupNames", "tagSpecifications", "userData", "vpcSecurityGroupIds", "description",
)  # fmt: skip

_ROWS: Final = (
    ec2(
        _TEMPLATE,
        "LaunchTemplate",
        tag="launch-template",
        make=_make_template,
        look=_template,
        drop=removed("ec2", "DeleteLaunchTemplate", "LaunchTemplateId"),
        force=frozenset({"name", "namePrefix"}),
        settle={**dict.fromkeys(_DATA, _new_version), "defaultVersion": _set_default},
        local=frozenset({"namePrefix", "updateDefaultVersion"}),
        renames={
            "name": "LaunchTemplateName",
            "vpcSecurityGroupIds": "SecurityGroupIds",
            "securityGroupNames": "SecurityGroups",
            "securityGroups": "Groups",
            "ipv4AddressCount": "SecondaryPrivateIpAddressCount",
        },
        outs=_template_outs,
        autoname=Autoname(prefix="namePrefix"),
        moves=frozenset({"latestVersion", "defaultVersion"}),
    ),
    ec2(
        _INSTANCE,
        "Instance",
        tag="instance",
        make=_run,
        look=_instance,
        drop=_terminate,
        force=frozenset(
            {
                "ami", "subnetId", "availabilityZone", "keyName", "privateIp", "placementGroup", "placementGroupId", "tenancy", "hostId",
                "associatePublicIpAddress", "launchTemplate", "primaryNetworkInterface", "networkInterfaces", "ebsBlockDevices",
                "rootBlockDevice", "instanceMarketOptions", "cpuOptions", "hibernation", "ebsOptimized", "capacityReservationSpecification",
                "iamInstanceProfile", "enclaveOptions", "placementPartitionNumber", "securityGroups",
            }
        ),
        settle={
            "instanceType": _stopped(_attribute("InstanceType", "instanceType")),
            "userData": _stopped(_set_user_data),
            "userDataBase64": _stopped(_set_user_data),
            "vpcSecurityGroupIds": _set_groups,
            "sourceDestCheck": _attribute("SourceDestCheck", "sourceDestCheck"),
            "disableApiTermination": _attribute("DisableApiTermination", "disableApiTermination"),
            "metadataOptions": _set_metadata,
        },
        late=frozenset({"sourceDestCheck"}),
        local=frozenset({"userDataReplaceOnChange", "forceDestroy", "getPasswordData"}),
        renames={"ami": "ImageId", "vpcSecurityGroupIds": "SecurityGroupIds", "privateIp": "PrivateIpAddress"},
        outs=_instance_outs,
        replaced_if=_replaced_if,
    ),
)  # fmt: skip
KINDS: Final = {kind.token: kind for kind in _ROWS}
