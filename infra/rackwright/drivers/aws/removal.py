"""Removal of resources by kind and id. A removal waits until AWS has released the resources that the next kind depends on."""

from __future__ import annotations

import time
from typing import Any, Final

from rackwright.drivers.aws.account import Account
from rackwright.errors import RackwrightError

_PATIENCE: Final = 90
"""Number of queries, `_PAUSE` seconds apart, until a file system is deleted."""
_PAUSE: Final = 10.0
"""Seconds between two queries. Chosen: `_PATIENCE` of them are 15 minutes; a deletion takes minutes, so shorter ones only add API calls."""


def delete_instance(account: Account, id_: str) -> None:
    """Terminate an instance with its root volume and interfaces; an instance with termination protection stays."""
    account.ask("ec2", "terminate_instances", InstanceIds=[id_])


def wait_instances_deleted(account: Account, ids: list[str]) -> None:
    """Wait until instances are terminated: until then they hold addresses, disks and groups."""
    account.wait("ec2", "instance_terminated", InstanceIds=ids)


def delete_file_system(account: Account, id_: str) -> None:
    """Delete a file system without a final backup."""
    account.ask("fsx", "delete_file_system", FileSystemId=id_)


def wait_file_systems_deleted(account: Account, ids: list[str]) -> None:
    """Wait until file systems are deleted, which takes minutes: until then their interfaces hold the subnet. boto3 has no waiter."""
    for _ in range(_PATIENCE):
        there = {each["FileSystemId"] for each in account.every("fsx", "describe_file_systems", "FileSystems")}
        if not there.intersection(ids):
            return
        time.sleep(_PAUSE)
    raise RackwrightError("FSx file systems: deletion has not finished", hint="run the command again later")


def delete_nat_gateway(account: Account, id_: str) -> None:
    """Delete a NAT gateway, which holds its address until it is deleted."""
    account.ask("ec2", "delete_nat_gateway", NatGatewayId=id_)


def wait_nat_gateways_deleted(account: Account, ids: list[str]) -> None:
    """Wait until NAT gateways are deleted, which takes minutes."""
    account.wait("ec2", "nat_gateway_deleted", NatGatewayIds=ids)


def release_address(account: Account, id_: str) -> None:
    """Release a public address."""
    (found,) = account.ask("ec2", "describe_addresses", AllocationIds=[id_])["Addresses"]
    if found.get("AssociationId"):
        account.ask("ec2", "disassociate_address", AssociationId=found["AssociationId"])
    account.ask("ec2", "release_address", AllocationId=id_)


def delete_endpoint(account: Account, id_: str) -> None:
    """Delete a VPC endpoint. Raise an error with AWS's reason if the response lists it as not deleted."""
    refused = account.ask("ec2", "delete_vpc_endpoints", VpcEndpointIds=[id_]).get("Unsuccessful")
    if refused:
        raise RackwrightError(str(refused[0].get("Error", {}).get("Message", "AWS reports no reason")))


def delete_interface(account: Account, id_: str) -> None:
    """Delete a network interface that no instance's termination has deleted."""
    account.ask("ec2", "delete_network_interface", NetworkInterfaceId=id_)


def delete_volume(account: Account, id_: str) -> None:
    """Delete a disk with its data."""
    account.ask("ec2", "delete_volume", VolumeId=id_)


def delete_launch_template(account: Account, id_: str) -> None:
    """Delete a template with all its versions."""
    account.ask("ec2", "delete_launch_template", LaunchTemplateId=id_)


def delete_placement_group(account: Account, name: str) -> None:
    """Delete a placement group."""
    account.ask("ec2", "delete_placement_group", GroupName=name)


def delete_security_group(account: Account, id_: str) -> None:
    """Delete a security group after the rules of other groups that name it: groups that admit each other block each other."""
    others = [each for each in account.ask("ec2", "describe_security_groups")["SecurityGroups"] if each["GroupId"] != id_]
    for other in others:
        for direction, permissions in (("ingress", other["IpPermissions"]), ("egress", other["IpPermissionsEgress"])):
            doomed = [_naming(each, id_) for each in permissions if _names(each, id_)]
            if doomed:
                account.ask("ec2", f"revoke_security_group_{direction}", GroupId=other["GroupId"], IpPermissions=doomed)
    account.ask("ec2", "delete_security_group", GroupId=id_)


def _names(permission: dict[str, Any], group: str) -> bool:
    return any(pair.get("GroupId") == group for pair in permission.get("UserIdGroupPairs", []))


def _naming(permission: dict[str, Any], group: str) -> dict[str, Any]:
    """Return the part of a permission that names the group."""
    ports: dict[str, Any] = {key: permission[key] for key in ("IpProtocol", "FromPort", "ToPort") if key in permission}
    return {**ports, "UserIdGroupPairs": [pair for pair in permission["UserIdGroupPairs"] if pair.get("GroupId") == group]}


def delete_subnet(account: Account, id_: str) -> None:
    """Delete a subnet."""
    account.ask("ec2", "delete_subnet", SubnetId=id_)


def delete_route_table(account: Account, id_: str) -> None:
    """Delete a route table with its associations to subnets."""
    (found,) = account.ask("ec2", "describe_route_tables", RouteTableIds=[id_])["RouteTables"]
    for tie in found.get("Associations", []):
        if not tie.get("Main"):
            account.ask("ec2", "disassociate_route_table", AssociationId=tie["RouteTableAssociationId"])
    account.ask("ec2", "delete_route_table", RouteTableId=id_)


def delete_internet_gateway(account: Account, id_: str) -> None:
    """Detach and delete an internet gateway."""
    (found,) = account.ask("ec2", "describe_internet_gateways", InternetGatewayIds=[id_])["InternetGateways"]
    for tie in found.get("Attachments", []):
        account.ask("ec2", "detach_internet_gateway", InternetGatewayId=id_, VpcId=tie["VpcId"])
    account.ask("ec2", "delete_internet_gateway", InternetGatewayId=id_)


def delete_network(account: Account, id_: str) -> None:
    """Delete the VPC; AWS refuses while it contains other owners' resources."""
    account.ask("ec2", "delete_vpc", VpcId=id_)


def delete_schedule(account: Account, name: str) -> None:
    """Delete a schedule before its role: without the role its stack cannot be determined."""
    account.ask("scheduler", "delete_schedule", Name=name)


def delete_profile(account: Account, name: str) -> None:
    """Empty and delete an instance profile."""
    found = account.ask("iam", "get_instance_profile", InstanceProfileName=name)["InstanceProfile"]
    for inside in found["Roles"]:
        account.ask("iam", "remove_role_from_instance_profile", InstanceProfileName=name, RoleName=inside["RoleName"])
    account.ask("iam", "delete_instance_profile", InstanceProfileName=name)


def delete_role(account: Account, name: str) -> None:
    """Delete a role with its own policies; AWS's policies are detached."""
    for policy in account.every("iam", "list_attached_role_policies", "AttachedPolicies", RoleName=name):
        account.ask("iam", "detach_role_policy", RoleName=name, PolicyArn=policy["PolicyArn"])
    for own in account.ask("iam", "list_role_policies", RoleName=name)["PolicyNames"]:
        account.ask("iam", "delete_role_policy", RoleName=name, PolicyName=own)
    account.ask("iam", "delete_role", RoleName=name)


def delete_budget(account: Account, name: str) -> None:
    """Delete a budget with its alerts."""
    number, _ = account.identity()
    account.ask("budgets", "delete_budget", AccountId=number, BudgetName=name)


def refuse_unknown(account: Account, arn: str) -> None:
    """Refuse a kind that rackwright does not create."""
    raise RackwrightError("not created by rackwright, therefore not deleted, although it has the stack's tag", path=arn)
