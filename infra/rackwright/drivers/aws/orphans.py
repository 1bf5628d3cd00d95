"""Resources in an account that have a stack's tag. They are found without state, by kind, and removed in the order that AWS requires.

A kind that could not be queried is reported: an account that could not be read is not an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from rackwright.drivers.aws import removal
from rackwright.drivers.aws.account import Account, AwsRequestError
from rackwright.errors import RackwrightError, UndeterminedError

STACK_TAG: Final = "rackwright.stack"
_DYING: Final = frozenset({"terminated", "shutting-down", "deleted", "deleting"})


@dataclass(frozen=True)
class OrphanedResource:
    """One resource that is left."""

    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


@dataclass(frozen=True)
class SearchResult:
    """Resources that are left, and kinds that could not be queried."""

    remaining: tuple[OrphanedResource, ...]
    not_queried: tuple[str, ...] = ()
    """A sentence for each kind that could not be queried."""


@dataclass(frozen=True)
class Kind:
    """Resources of one kind."""

    name: str
    find: Callable[[Account, str], list[str]]
    remove: Callable[[Account, str], None]
    wait: Callable[[Account, list[str]], None] = lambda account, ids: None
    """Waits until all of them are deleted."""


def find(account: Account, stack: str) -> SearchResult:
    """Return every resource of a stack in the account's region, in the order in which it can be removed."""
    left: list[OrphanedResource] = []
    unseen: list[str] = []
    for kind in KINDS:
        try:
            left += [OrphanedResource(kind.name, id_) for id_ in kind.find(account, stack)]
        except UndeterminedError as silent:
            unseen.append(f"could not query {kind.name}: {silent.path}: {silent.cause}")
    return SearchResult(tuple(left), tuple(unseen))


def remove(account: Account, stack: str, say: Callable[[str], None]) -> None:
    """Remove everything and verify; raise an error with each leftover and its reason.

    Raise UndeterminedError if a kind could not be queried.
    """
    left = find(account, stack).remaining
    reasons: list[str] = []
    for kind in KINDS:
        of_kind = [thing for thing in left if thing.kind == kind.name]
        going = [thing for thing in of_kind if _succeeds(reasons, str(thing), partial(kind.remove, account, thing.id))]
        if going and _succeeds(reasons, f"{kind.name}s", partial(kind.wait, account, [thing.id for thing in going])):
            for thing in going:
                say(f"removed {thing}")
    require_empty(account, stack, reasons)


def _succeeds(reasons: list[str], what: str, step: Callable[[], None]) -> bool:
    """Run a step and return whether it succeeded. A resource that no longer exists counts as success. Other refusals become reasons."""
    try:
        step()
    except RackwrightError as stuck:
        if isinstance(stuck, AwsRequestError) and _is_gone(stuck.code):
            return True
        reasons.append(f"{what}: {stuck.cause}")
        return False
    return True


def _is_gone(code: str) -> bool:
    return code.endswith((".NotFound", "NotFoundException")) or code in {"NoSuchEntity", "FileSystemNotFound", "NatGatewayNotFound"}


def require_empty(account: Account, stack: str, reasons: list[str] | None = None) -> None:
    """Verify that no resource of the stack is left in the account; raise otherwise."""
    found = find(account, stack)
    where = f"stack {stack} in {account.region}"
    if found.remaining:
        names = "\n".join(
            [f"  {thing}" for thing in found.remaining]
            + [f"  {reason}" for reason in reasons or []]
            + [f"  {one}" for one in found.not_queried]
        )
        hint = f"it may bill: `rackwright down --by-label {stack} --yes` removes it"
        raise RackwrightError(f"{len(found.remaining)} resources remain:\n{names}", path=where, hint=hint)
    if found.not_queried:
        raise UndeterminedError(
            "\n".join(found.not_queried), path=where, hint="allow these calls, or use other credentials, and run it again"
        )


def _tagged(stack: str) -> list[dict[str, Any]]:
    return [{"Name": f"tag:{STACK_TAG}", "Values": [stack]}]


def _ec2(call: str, key: str, id_: str, state: str = "State") -> Callable[[Account, str], list[str]]:
    """Return resources of EC2 that a filter finds and that have the tag: an ignored filter must not remove other owners' resources."""

    def look(account: Account, stack: str) -> list[str]:
        found = account.ask("ec2", call, Filters=_tagged(stack))[key]
        return [
            each[id_]
            for each in found
            if _is_of_stack(each.get("Tags") or each.get("TagSet", []), stack) and str(each.get(state)).lower() not in _DYING
        ]

    return look


def _instances(account: Account, stack: str) -> list[str]:
    found = account.every("ec2", "describe_instances", "Reservations", Filters=_tagged(stack))
    instances = [one for each in found for one in each["Instances"] if one["State"]["Name"] not in _DYING]
    return [one["InstanceId"] for one in instances if _is_of_stack(one.get("Tags", []), stack)]


def _file_systems(account: Account, stack: str) -> list[str]:
    found = account.every("fsx", "describe_file_systems", "FileSystems")
    return [each["FileSystemId"] for each in found if _is_of_stack(each.get("Tags", []), stack) and each.get("Lifecycle") != "DELETING"]


def _roles(account: Account, stack: str) -> list[str]:
    """Return the stack's roles. IAM lists no tags, so each role is queried for its own; service-linked roles belong to AWS."""
    names = [role["RoleName"] for role in account.every("iam", "list_roles", "Roles") if not role["Path"].startswith("/aws-service-role/")]
    return [name for name in names if _is_of_stack(account.ask("iam", "list_role_tags", RoleName=name)["Tags"], stack)]


def _profiles(account: Account, stack: str) -> list[str]:
    names = [each["InstanceProfileName"] for each in account.every("iam", "list_instance_profiles", "InstanceProfiles")]
    profiles = [account.ask("iam", "get_instance_profile", InstanceProfileName=name)["InstanceProfile"] for name in names]
    return [each["InstanceProfileName"] for each in profiles if _is_of_stack(each.get("Tags", []), stack)]


def _schedules(account: Account, stack: str) -> list[str]:
    """Return the stack's schedules. Schedules have no tags: those with a role of the stack belong to it."""
    roles = set(_roles(account, stack))
    names = [each["Name"] for each in account.every("scheduler", "list_schedules", "Schedules")] if roles else []
    return [name for name in names if account.ask("scheduler", "get_schedule", Name=name)["Target"]["RoleArn"].rpartition("/")[2] in roles]


def _budgets(account: Account, stack: str) -> list[str]:
    number, _ = account.identity()
    found = account.every("budgets", "describe_budgets", "Budgets", AccountId=number)
    return [each["BudgetName"] for each in found if each["BudgetName"] == f"rackwright-{stack}"]


def _others(account: Account, stack: str) -> list[str]:
    """Return what only the tagging service lists. It lists deleted resources for a while, so known kinds are left out."""
    filters = [{"Key": STACK_TAG, "Values": [stack]}]
    found = account.every("resourcegroupstaggingapi", "get_resources", "ResourceTagMappingList", TagFilters=filters)
    return [arn for arn in (each["ResourceARN"] for each in found) if not _is_known(arn)]


_KNOWN: Final = frozenset(
    {
        "budgets:budget",
        # A capacity block is paid for: it ends at its date and cannot be cancelled.
        "ec2:capacity-reservation",
        "ec2:elastic-ip",
        "ec2:instance",
        "ec2:internet-gateway",
        "ec2:launch-template",
        "ec2:natgateway",
        "ec2:network-interface",
        "ec2:placement-group",
        "ec2:route-table",
        "ec2:security-group",
        "ec2:security-group-rule",
        "ec2:spot-instances-request",
        "ec2:subnet",
        "ec2:volume",
        "ec2:vpc",
        "ec2:vpc-endpoint",
        "fsx:association",
        "fsx:file-system",
        "iam:instance-profile",
        "iam:role",
    }
)
"""Kinds by service and resource type of their ARNs that other entries cover, or that are deleted with their owner."""


def _is_known(arn: str) -> bool:
    _, _, service, _, _, rest = arn.split(":", 5)
    return f"{service}:{rest.replace(':', '/').partition('/')[0]}" in _KNOWN


def _is_of_stack(tags: list[dict[str, str]], stack: str) -> bool:
    return any(tag["Key"] == STACK_TAG and tag["Value"] == stack for tag in tags)


KINDS: Final = (
    Kind("schedule", _schedules, removal.delete_schedule),
    Kind("instance", _instances, removal.delete_instance, removal.wait_instances_deleted),
    Kind("file system", _file_systems, removal.delete_file_system, removal.wait_file_systems_deleted),
    Kind(
        "NAT gateway",
        _ec2("describe_nat_gateways", "NatGateways", "NatGatewayId"),
        removal.delete_nat_gateway,
        removal.wait_nat_gateways_deleted,
    ),
    Kind("public address", _ec2("describe_addresses", "Addresses", "AllocationId"), removal.release_address),
    Kind("endpoint", _ec2("describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"), removal.delete_endpoint),
    Kind("interface", _ec2("describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId"), removal.delete_interface),
    Kind("volume", _ec2("describe_volumes", "Volumes", "VolumeId"), removal.delete_volume),
    Kind("launch template", _ec2("describe_launch_templates", "LaunchTemplates", "LaunchTemplateId"), removal.delete_launch_template),
    Kind("placement group", _ec2("describe_placement_groups", "PlacementGroups", "GroupName"), removal.delete_placement_group),
    Kind("security group", _ec2("describe_security_groups", "SecurityGroups", "GroupId"), removal.delete_security_group),
    Kind("subnet", _ec2("describe_subnets", "Subnets", "SubnetId"), removal.delete_subnet),
    Kind("route table", _ec2("describe_route_tables", "RouteTables", "RouteTableId"), removal.delete_route_table),
    Kind("internet gateway", _ec2("describe_internet_gateways", "InternetGateways", "InternetGatewayId"), removal.delete_internet_gateway),
    Kind("network", _ec2("describe_vpcs", "Vpcs", "VpcId"), removal.delete_network),
    Kind("instance profile", _profiles, removal.delete_profile),
    Kind("role", _roles, removal.delete_role),
    Kind("budget", _budgets, removal.delete_budget),
    Kind("other", _others, removal.refuse_unknown),
)
"""In the order of removal: resources that are billed or that others depend on come first."""


def lines(found: SearchResult) -> Iterator[str]:
    """Yield the lines for display."""
    yield from (str(thing) for thing in found.remaining)
    yield from found.not_queried
