"""Functions that a program calls while it runs, by token: arguments in, result out."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from typing import Any, Final

from rackwright.errors import RackwrightError
from rackwright.provider.protocol.property_values import Secret
from standins.aws.account import Account
from standins.aws.state import Properties, tags_as_map

Function = Callable[[Account, Properties], Properties]


def _filters(arguments: Properties) -> list[dict[str, Any]]:
    return [{"Name": one["name"], "Values": one["values"]} for one in arguments.get("filters") or []]


def _ami(account: Account, arguments: Properties) -> Properties:
    asked: dict[str, Any] = {"Filters": _filters(arguments)}
    if arguments.get("owners"):
        asked["Owners"] = arguments["owners"]
    if arguments.get("executableUsers"):
        asked["ExecutableUsers"] = arguments["executableUsers"]
    found = account.call("ec2", "DescribeImages", **asked)["Images"]
    if arguments.get("nameRegex"):
        found = [one for one in found if re.search(arguments["nameRegex"], one.get("Name", ""))]
    if not found:
        raise RackwrightError("Your query returned no results. Please change your search criteria and try again.")
    if len(found) > 1 and not arguments.get("mostRecent"):
        raise RackwrightError(
            "Your query returned more than one result. Please try a more specific search criteria, or set `most_recent` to true."
        )
    image = max(found, key=lambda one: one.get("CreationDate", ""))
    plain = {
        "architecture": "Architecture", "creationDate": "CreationDate", "description": "Description", "hypervisor": "Hypervisor",
        "imageId": "ImageId", "imageLocation": "ImageLocation", "imageType": "ImageType", "name": "Name", "ownerId": "OwnerId",
        "public": "Public", "rootDeviceName": "RootDeviceName", "rootDeviceType": "RootDeviceType", "state": "State",
        "virtualizationType": "VirtualizationType", "bootMode": "BootMode",
    }  # fmt: skip
    shown = {name: image[key] for name, key in plain.items() if key in image}
    return {
        **arguments,
        **shown,
        "id": image["ImageId"],
        "arn": f"arn:aws:ec2:{account.region}::image/{image['ImageId']}",
        "tags": tags_as_map(image.get("Tags") or []),
    }


def _zones(account: Account, arguments: Properties) -> Properties:
    filters = _filters(arguments)
    if arguments.get("state"):
        filters.append({"Name": "state", "Values": [arguments["state"]]})
    found = account.call("ec2", "DescribeAvailabilityZones", Filters=filters)["AvailabilityZones"]
    left_out = {*(arguments.get("excludeNames") or []), *(arguments.get("excludeZoneIds") or [])}
    kept = sorted((one for one in found if not left_out & {one["ZoneName"], one["ZoneId"]}), key=lambda one: str(one["ZoneName"]))
    return {
        **arguments,
        "id": account.region,
        "names": [one["ZoneName"] for one in kept],
        "zoneIds": [one["ZoneId"] for one in kept],
        "groupNames": sorted({one.get("GroupName", account.region) for one in kept}),
    }


def _caller(account: Account, arguments: Properties) -> Properties:
    found = account.call("sts", "GetCallerIdentity")
    return {"id": found["Account"], "accountId": found["Account"], "arn": found["Arn"], "userId": found["UserId"]}


def _region(account: Account, arguments: Properties) -> Properties:
    name = arguments.get("region") or arguments.get("name") or account.region
    return {"id": name, "name": name, "region": name, "endpoint": f"ec2.{name}.amazonaws.com", "description": name}


def _parameter(account: Account, arguments: Properties) -> Properties:
    """Return a parameter. `value` is a secret of any type, as with the real provider; `insecureValue` is the plain one."""
    decrypted = arguments.get("withDecryption", True)
    found = account.call("ssm", "GetParameter", Name=arguments["name"], WithDecryption=decrypted)["Parameter"]
    secret = found["Type"] == "SecureString"
    return {
        "id": arguments["name"],
        "name": arguments["name"],
        "arn": found["ARN"],
        "type": found["Type"],
        "version": found["Version"],
        "value": Secret(found["Value"]),
        "insecureValue": "" if secret else found["Value"],
        "withDecryption": decrypted,
    }


def _capacity_block(account: Account, arguments: Properties) -> Properties:
    asked = {
        "CapacityDurationHours": int(arguments["capacityDurationHours"]),
        "InstanceCount": int(arguments["instanceCount"]),
        "InstanceType": arguments["instanceType"],
    }
    asked |= {
        key: arguments[name]
        for name, key in (("startDateRange", "StartDateRange"), ("endDateRange", "EndDateRange"))
        if arguments.get(name)
    }
    found = account.call("ec2", "DescribeCapacityBlockOfferings", **asked)["CapacityBlockOfferings"]
    if not found:
        raise RackwrightError("no capacity block is offered for that")
    first = found[0]
    return {
        **arguments,
        "id": first["CapacityBlockOfferingId"],
        "capacityBlockOfferingId": first["CapacityBlockOfferingId"],
        "availabilityZone": first["AvailabilityZone"],
        "currencyCode": first["CurrencyCode"],
        "upfrontFee": first["UpfrontFee"],
        "tenancy": first["Tenancy"],
    }


def _policy_document(account: Account, arguments: Properties) -> Properties:
    """Return statements as the policy's JSON."""
    document: dict[str, Any] = {"Version": arguments.get("version") or "2012-10-17"}
    if arguments.get("policyId"):
        document["Id"] = arguments["policyId"]
    document["Statement"] = [_statement(one) for one in arguments.get("statements") or []]
    text = json.dumps(document, indent=2)
    return {**arguments, "id": str(zlib.crc32(text.encode())), "json": text, "minifiedJson": json.dumps(document, separators=(",", ":"))}


def _statement(given: Properties) -> dict[str, Any]:
    made: dict[str, Any] = {"Sid": given["sid"]} if given.get("sid") else {}
    made["Effect"] = given.get("effect") or "Allow"
    for name, key in (("actions", "Action"), ("notActions", "NotAction"), ("resources", "Resource"), ("notResources", "NotResource")):
        if given.get(name):
            made[key] = _one_or_many(given[name])
    for name, key in (("principals", "Principal"), ("notPrincipals", "NotPrincipal")):
        if given.get(name):
            made[key] = {one["type"]: _one_or_many(one["identifiers"]) for one in given[name]}
    if given.get("conditions"):
        made["Condition"] = {}
        for one in given["conditions"]:
            made["Condition"].setdefault(one["test"], {})[one["variable"]] = _one_or_many(one["values"])
    return made


def _one_or_many(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else sorted(values, reverse=True)


def _instance_type(account: Account, arguments: Properties) -> Properties:
    """Return the facts that a program queries before a launch; the others are left out."""
    found = account.call("ec2", "DescribeInstanceTypes", InstanceTypes=[arguments["instanceType"]])["InstanceTypes"][0]
    network = found.get("NetworkInfo") or {}
    return {
        **arguments,
        "id": found["InstanceType"],
        "defaultVcpus": found["VCpuInfo"]["DefaultVCpus"],
        "memorySize": found["MemoryInfo"]["SizeInMiB"],
        "efaSupported": network.get("EfaSupported", False),
        "maximumNetworkCards": network.get("MaximumNetworkCards", 1),
    }


FUNCTIONS: Final[dict[str, Function]] = {
    "aws:ec2/getAmi:getAmi": _ami,
    "aws:index/getAvailabilityZones:getAvailabilityZones": _zones,
    "aws:index/getCallerIdentity:getCallerIdentity": _caller,
    "aws:index/getRegion:getRegion": _region,
    "aws:ssm/getParameter:getParameter": _parameter,
    "aws:ec2/getCapacityBlockOffering:getCapacityBlockOffering": _capacity_block,
    "aws:iam/getPolicyDocument:getPolicyDocument": _policy_document,
    "aws:ec2/getInstanceType:getInstanceType": _instance_type,
}
