"""Networks: addresses, routes, gateways, endpoints."""

from __future__ import annotations

import zlib
from typing import Any, Final

from standins.aws.account import Account
from standins.aws.kind import Create, ResourceType, SetProperty, ec2, fill, listed, removed
from standins.aws.state import Properties
from standins.aws.tags import Described, Tags

_DESTINATIONS: Final = {
    "destinationCidrBlock": "DestinationCidrBlock",
    "destinationIpv6CidrBlock": "DestinationIpv6CidrBlock",
    "destinationPrefixListId": "DestinationPrefixListId",
}

_ROUTE_FIELDS: Final = {
    "cidrBlock": "DestinationCidrBlock",
    "ipv6CidrBlock": "DestinationIpv6CidrBlock",
    "gatewayId": "GatewayId",
    "natGatewayId": "NatGatewayId",
    "networkInterfaceId": "NetworkInterfaceId",
}


def _vpc_attribute(name: str) -> SetProperty:
    def settle(account: Account, ident: str, news: Properties, olds: Properties) -> None:
        key = name[0].upper() + name[1:]
        account.call("ec2", "ModifyVpcAttribute", VpcId=ident, **{key: {"Value": news[name]}})

    return settle


def _vpc_outs(account: Account, ident: str, described: Described, inputs: Properties) -> Properties:
    inside = [{"Name": "vpc-id", "Values": [ident]}]
    tables = account.call("ec2", "DescribeRouteTables", Filters=inside)["RouteTables"]
    main = [one["RouteTableId"] for one in tables if any(link.get("Main") for link in one["Associations"])]
    groups = account.call("ec2", "DescribeSecurityGroups", Filters=inside)["SecurityGroups"]
    lists = account.call("ec2", "DescribeNetworkAcls", Filters=inside)["NetworkAcls"]
    attributes = {}
    for name in ("enableDnsSupport", "enableDnsHostnames"):
        key = name[0].upper() + name[1:]
        attributes[name] = account.call("ec2", "DescribeVpcAttribute", VpcId=ident, Attribute=name)[key]["Value"]
    return {
        **attributes,
        "arn": account.arn("ec2", f"vpc/{ident}"),
        "mainRouteTableId": main[0] if main else None,
        "defaultRouteTableId": main[0] if main else None,
        "defaultSecurityGroupId": next((one["GroupId"] for one in groups if one["GroupName"] == "default"), None),
        "defaultNetworkAclId": next((one["NetworkAclId"] for one in lists if one["IsDefault"]), None),
    }


def _public_addresses(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    account.call("ec2", "ModifySubnetAttribute", SubnetId=ident, MapPublicIpOnLaunch={"Value": news["mapPublicIpOnLaunch"]})


def _join_vpc(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    _leave_vpcs(account, ident)
    if news.get("vpcId"):
        account.call("ec2", "AttachInternetGateway", InternetGatewayId=ident, VpcId=news["vpcId"])


def _leave_vpcs(account: Account, ident: str) -> None:
    for gateway in account.call("ec2", "DescribeInternetGateways", InternetGatewayIds=[ident])["InternetGateways"]:
        for link in gateway["Attachments"]:
            account.call("ec2", "DetachInternetGateway", InternetGatewayId=ident, VpcId=link["VpcId"])


def _drop_gateway(account: Account, ident: str, inputs: Properties) -> None:
    _leave_vpcs(account, ident)
    account.call("ec2", "DeleteInternetGateway", InternetGatewayId=ident)


def _gateway_outs(account: Account, ident: str, described: Described, inputs: Properties) -> Properties:
    links = described["Attachments"]
    return {"vpcId": links[0]["VpcId"] if links else "", "arn": account.arn("ec2", f"internet-gateway/{ident}")}


def _take_address(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    found = account.call("ec2", "DescribeAddresses", AllocationIds=[ident])["Addresses"][0]
    if found.get("AssociationId"):
        account.call("ec2", "DisassociateAddress", AssociationId=found["AssociationId"])
    holder = {"InstanceId": news.get("instance"), "NetworkInterfaceId": news.get("networkInterface")}
    asked = {key: value for key, value in holder.items() if value}
    if asked:
        account.call("ec2", "AssociateAddress", AllocationId=ident, **asked)


def _drop_address(account: Account, ident: str, inputs: Properties) -> None:
    found = account.call("ec2", "DescribeAddresses", AllocationIds=[ident])["Addresses"][0]
    if found.get("AssociationId"):
        account.call("ec2", "DisassociateAddress", AssociationId=found["AssociationId"])
    account.call("ec2", "ReleaseAddress", AllocationId=ident)


def _address_outs(account: Account, ident: str, described: Described, inputs: Properties) -> Properties:
    return {
        "arn": account.arn("ec2", f"elastic-ip/{ident}"),
        "privateIp": described.get("PrivateIpAddress"),
        "instance": described.get("InstanceId") or "",
        "networkInterface": described.get("NetworkInterfaceId") or "",
    }


def _association(account: Account, ident: str, inputs: Properties) -> Described | None:
    found = account.call("ec2", "DescribeAddresses", Filters=[{"Name": "association-id", "Values": [ident]}])["Addresses"]
    return found[0] if found else None


def _nat_outs(account: Account, ident: str, described: Described, inputs: Properties) -> Properties:
    first = described["NatGatewayAddresses"][0]
    named = {"publicIp": "PublicIp", "privateIp": "PrivateIp", "networkInterfaceId": "NetworkInterfaceId", "associationId": "AssociationId"}
    return {name: first.get(key) for name, key in named.items()}


def _table_outs(account: Account, ident: str, described: Described, inputs: Properties) -> Properties:
    routes = [one for one in described["Routes"] if one.get("Origin") == "CreateRoute" or one.get("GatewayId") != "local"]
    shown = [
        {key: route[field] for key, field in _ROUTE_FIELDS.items() if route.get(field)}
        for route in routes
        if not route.get("DestinationPrefixListId")
    ]
    return {"arn": account.arn("ec2", f"route-table/{ident}"), "routes": sorted(shown, key=str)}


def _set_routes(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    """Set the table's own routes, one by one, identified by destination."""
    described = account.call("ec2", "DescribeRouteTables", RouteTableIds=[ident])["RouteTables"][0]
    for route in _table_outs(account, ident, described, {})["routes"]:
        destination = (
            {"DestinationCidrBlock": route["cidrBlock"]} if "cidrBlock" in route else {"DestinationIpv6CidrBlock": route["ipv6CidrBlock"]}
        )
        account.call("ec2", "DeleteRoute", RouteTableId=ident, **destination)
    for route in news.get("routes") or []:
        renamed = {"cidrBlock": "destinationCidrBlock", "ipv6CidrBlock": "destinationIpv6CidrBlock"}
        asked = {renamed.get(key, key): value for key, value in route.items()}
        account.call("ec2", "CreateRoute", RouteTableId=ident, **fill(account, KINDS["aws:ec2/route:Route"], "CreateRoute", asked))


def _destination(inputs: Properties) -> dict[str, Any]:
    return {field: inputs[key] for key, field in _DESTINATIONS.items() if inputs.get(key)}


def _make_route(account: Account, kind: ResourceType, inputs: Properties, tags: Tags) -> str:
    account.call("ec2", "CreateRoute", **fill(account, kind, "CreateRoute", inputs))
    return f"r-{inputs['routeTableId']}{zlib.crc32(str(_destination(inputs)).encode())}"


def _route(account: Account, ident: str, inputs: Properties) -> Described | None:
    tables = account.call("ec2", "DescribeRouteTables", RouteTableIds=[inputs["routeTableId"]])["RouteTables"]
    wanted = _destination(inputs).items()
    return next((route for route in tables[0]["Routes"] if wanted <= {k: v for k, v in route.items() if isinstance(v, str)}.items()), None)


def _retarget(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    account.call("ec2", "ReplaceRoute", **fill(account, KINDS["aws:ec2/route:Route"], "ReplaceRoute", news))


def _drop_route(account: Account, ident: str, inputs: Properties) -> None:
    account.call("ec2", "DeleteRoute", RouteTableId=inputs["routeTableId"], **_destination(inputs))


def _link(account: Account, ident: str, inputs: Properties) -> Described | None:
    asked = [{"Name": "association.route-table-association-id", "Values": [ident]}]
    for table in account.call("ec2", "DescribeRouteTables", Filters=asked)["RouteTables"]:
        for link in table["Associations"]:
            if link["RouteTableAssociationId"] == ident:
                return dict(link)
    return None


def _set_endpoint_tables(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    before, after = set(olds.get("routeTableIds") or []), set(news.get("routeTableIds") or [])
    asked = {"AddRouteTableIds": sorted(after - before), "RemoveRouteTableIds": sorted(before - after)}
    account.call("ec2", "ModifyVpcEndpoint", VpcEndpointId=ident, **{key: value for key, value in asked.items() if value})


def _set_endpoint_policy(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    account.call("ec2", "ModifyVpcEndpoint", VpcEndpointId=ident, PolicyDocument=news["policy"])


def _endpoint_outs(account: Account, ident: str, described: Described, inputs: Properties) -> Properties:
    return {"arn": account.arn("ec2", f"vpc-endpoint/{ident}"), "policy": inputs.get("policy")}


def _drop_endpoint(account: Account, ident: str, inputs: Properties) -> None:
    account.call("ec2", "DeleteVpcEndpoints", VpcEndpointIds=[ident])


_TARGETS: Final = ("gatewayId", "natGatewayId", "networkInterfaceId", "vpcEndpointId", "vpcPeeringConnectionId", "transitGatewayId")

_ROWS: Final = (
    ec2(
        "aws:ec2/vpc:Vpc",
        "Vpc",
        tag="vpc",
        force=frozenset({"cidrBlock", "instanceTenancy"}),
        settle={name: _vpc_attribute(name) for name in ("enableDnsSupport", "enableDnsHostnames")},
        late=frozenset({"enableDnsSupport", "enableDnsHostnames"}),
        renames={"assignGeneratedIpv6CidrBlock": "AmazonProvidedIpv6CidrBlock"},
        outs=_vpc_outs,
    ),
    ec2(
        "aws:ec2/subnet:Subnet",
        "Subnet",
        tag="subnet",
        force=frozenset({"vpcId", "cidrBlock", "availabilityZone", "availabilityZoneId", "ipv6CidrBlock"}),
        settle={"mapPublicIpOnLaunch": _public_addresses},
        late=frozenset({"mapPublicIpOnLaunch"}),
        outs=lambda account, ident, described, inputs: {"arn": described.get("SubnetArn") or account.arn("ec2", f"subnet/{ident}")},
    ),
    ec2(
        "aws:ec2/internetGateway:InternetGateway",
        "InternetGateway",
        tag="internet-gateway",
        settle={"vpcId": _join_vpc},
        late=frozenset({"vpcId"}),
        drop=_drop_gateway,
        outs=_gateway_outs,
    ),
    ec2(
        "aws:ec2/eip:Eip",
        "Eip",
        tag="elastic-ip",
        make=Create("AllocateAddress", "", "AllocationId"),
        look=listed("ec2", "DescribeAddresses", "AllocationIds", "Addresses"),
        drop=_drop_address,
        force=frozenset({"domain", "publicIpv4Pool", "networkBorderGroup", "address"}),
        settle={"instance": _take_address, "networkInterface": _take_address},
        late=frozenset({"instance", "networkInterface"}),
        outs=_address_outs,
    ),
    ec2(
        "aws:ec2/eipAssociation:EipAssociation",
        "Address",
        make=Create("AssociateAddress", "", "AssociationId"),
        look=_association,
        drop=removed("ec2", "DisassociateAddress", "AssociationId"),
        force=frozenset({"allocationId", "instanceId", "networkInterfaceId", "privateIpAddress", "publicIp", "allowReassociation"}),
    ),
    ec2(
        "aws:ec2/natGateway:NatGateway",
        "NatGateway",
        tag="natgateway",
        alive=lambda described: described["State"] not in ("deleted", "deleting", "failed"),
        force=frozenset({"allocationId", "subnetId", "connectivityType", "privateIp"}),
        renames={"privateIp": "PrivateIpAddress"},
        outs=_nat_outs,
    ),
    ec2(
        "aws:ec2/routeTable:RouteTable",
        "RouteTable",
        tag="route-table",
        force=frozenset({"vpcId"}),
        settle={"routes": _set_routes},
        late=frozenset({"routes"}),
        outs=_table_outs,
    ),
    ec2(
        "aws:ec2/route:Route",
        "Route",
        make=_make_route,
        look=_route,
        drop=_drop_route,
        force=frozenset({"routeTableId", *_DESTINATIONS}),
        settle=dict.fromkeys(_TARGETS, _retarget),
    ),
    ec2(
        "aws:ec2/routeTableAssociation:RouteTableAssociation",
        "RouteTable",
        make=Create("AssociateRouteTable", "", "AssociationId"),
        look=_link,
        drop=removed("ec2", "DisassociateRouteTable", "AssociationId"),
        # The real provider keeps the resource when only the table changes, under a new id; here it is replaced.
        force=frozenset({"subnetId", "gatewayId", "routeTableId"}),
    ),
    ec2(
        "aws:ec2/vpcEndpoint:VpcEndpoint",
        "VpcEndpoint",
        tag="vpc-endpoint",
        alive=lambda described: described["State"] not in ("deleted", "deleting"),
        drop=_drop_endpoint,
        force=frozenset({"vpcId", "serviceName", "vpcEndpointType", "serviceRegion"}),
        settle={"routeTableIds": _set_endpoint_tables, "policy": _set_endpoint_policy},
        renames={"policy": "PolicyDocument"},
        outs=_endpoint_outs,
    ),
)
KINDS: Final = {kind.token: kind for kind in _ROWS}
