"""Leftovers of a stack in an account: found by tag without state, removed in order; a destroy that leaves something fails.

moto replaces AWS: it refuses much less than AWS does, so the order is proven by moto's refusals, and by reading.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from moto.core.responses import ActionResult
from moto.ec2.responses import EC2Response

from rackwright.drivers.aws import orphans
from rackwright.drivers.aws.account import Account, AwsAccessDeniedError
from rackwright.drivers.aws.orphans import KINDS
from rackwright.errors import RackwrightError, UndeterminedError
from rackwright.inventory import paths
from rackwright.provider.aws import stack_marker
from rackwright.provider.aws.stack_marker import StackMarker
from rackwright.provider.protocol.resource import RecordedState, RequestContext

from .conftest import Run


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Patch placement groups to have a stack, which moto does not model; return group -> stack."""
    held: dict[str, str] = {}

    def described(self: Any) -> ActionResult:
        every = [{"GroupName": name, "State": "available", "Tags": tags(stack)} for name, stack in held.items()]
        return ActionResult({"PlacementGroups": every})

    def deleted(self: Any) -> ActionResult:
        held.pop(self._get_param("GroupName"))
        return ActionResult({})

    monkeypatch.setattr(EC2Response, "describe_placement_groups", described, raising=False)
    monkeypatch.setattr(EC2Response, "delete_placement_group", deleted, raising=False)
    return held


@pytest.fixture
def there(account: Account, groups: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Account:
    """Return an account for searches; waits do not sleep."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(stack_marker, "_PAUSE", 0.0)
    return account


def tags(stack: str) -> list[dict[str, str]]:
    """Return the stack's tag beside another."""
    return [{"Key": "Name", "Value": "x"}, {"Key": "rackwright.stack", "Value": stack}]


def born(stack: str, *kinds: str) -> list[dict[str, Any]]:
    """Return the tags of a create call."""
    return [{"ResourceType": kind, "Tags": tags(stack)} for kind in kinds]


RIGHTS = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": "*"}]}


def build(account: Account, stack: str, groups: dict[str, str]) -> None:
    """Create one resource of each kind, connected as a stack's are."""
    ec2, iam = account.client("ec2"), account.client("iam")
    vpc = ec2.create_vpc(CidrBlock="10.90.0.0/22", TagSpecifications=born(stack, "vpc"))["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.90.0.0/24", TagSpecifications=born(stack, "subnet"))["Subnet"]["SubnetId"]
    gateway = ec2.create_internet_gateway(TagSpecifications=born(stack, "internet-gateway"))["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    table = ec2.create_route_table(VpcId=vpc, TagSpecifications=born(stack, "route-table"))["RouteTable"]["RouteTableId"]
    ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
    address = ec2.allocate_address(Domain="vpc", TagSpecifications=born(stack, "elastic-ip"))["AllocationId"]
    ec2.create_nat_gateway(SubnetId=subnet, AllocationId=address, TagSpecifications=born(stack, "natgateway"))
    ec2.create_vpc_endpoint(
        VpcId=vpc,
        VpcEndpointType="Gateway",
        ServiceName="com.amazonaws.us-east-1.s3",
        RouteTableIds=[table],
        TagSpecifications=born(stack, "vpc-endpoint"),
    )
    one, two = (
        ec2.create_security_group(GroupName=name, Description=name, VpcId=vpc, TagSpecifications=born(stack, "security-group"))["GroupId"]
        for name in ("cluster", "storage")
    )
    for mine, other in ((one, two), (two, one), (one, one)):
        ec2.authorize_security_group_ingress(GroupId=mine, IpPermissions=[{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": other}]}])
    image = ec2.register_image(Name=f"{stack}-image", RootDeviceName="/dev/sda1")["ImageId"]
    instance = ec2.run_instances(
        ImageId=image, MinCount=1, MaxCount=1, SubnetId=subnet, SecurityGroupIds=[one], TagSpecifications=born(stack, "instance")
    )["Instances"][0]["InstanceId"]
    disk = ec2.create_volume(AvailabilityZone="us-east-1a", Size=20, TagSpecifications=born(stack, "volume"))["VolumeId"]
    ec2.attach_volume(VolumeId=disk, InstanceId=instance, Device="/dev/sdf")
    ec2.create_network_interface(SubnetId=subnet, TagSpecifications=born(stack, "network-interface"))
    ec2.create_launch_template(
        LaunchTemplateName=f"{stack}-x", LaunchTemplateData={"InstanceType": "t3.medium"}, TagSpecifications=born(stack, "launch-template")
    )
    groups[f"{stack}-place"] = stack
    account.client("fsx").create_file_system(FileSystemType="LUSTRE", StorageCapacity=1200, SubnetIds=[subnet], Tags=tags(stack))
    role = iam.create_role(RoleName=f"{stack}-end", AssumeRolePolicyDocument="{}", Tags=tags(stack))["Role"]["Arn"]
    iam.put_role_policy(RoleName=f"{stack}-end", PolicyName="rights", PolicyDocument=json.dumps(RIGHTS))
    iam.create_instance_profile(InstanceProfileName=f"{stack}-nodes", Tags=tags(stack))
    iam.add_role_to_instance_profile(InstanceProfileName=f"{stack}-nodes", RoleName=f"{stack}-end")
    account.client("scheduler").create_schedule(
        Name=f"{stack}-end-1",
        FlexibleTimeWindow={"Mode": "OFF"},
        ScheduleExpression="at(2030-01-01T00:00:00)",
        Target={"Arn": "arn:aws:scheduler:::aws-sdk:ec2:terminateInstances", "RoleArn": role},
    )
    limit = {
        "BudgetName": f"rackwright-{stack}",
        "BudgetType": "COST",
        "TimeUnit": "MONTHLY",
        "BudgetLimit": {"Amount": "15", "Unit": "USD"},
    }
    account.client("budgets").create_budget(AccountId=account.identity()[0], Budget=limit)


def kinds(found: orphans.SearchResult) -> set[str]:
    """Return the kinds of leftovers; all kinds could be queried."""
    assert found.not_queried == ()
    return {thing.kind for thing in found.remaining}


EVERY = {kind.name for kind in KINDS} - {"other"}


def test_empty_account_has_no_leftovers(there: Account) -> None:
    """moto's own default network has another owner."""
    assert orphans.find(there, "mine") == orphans.SearchResult(())


def test_find_lists_every_kind_of_own_resource(there: Account, groups: dict[str, str]) -> None:
    build(there, "mine", groups)
    build(there, "other", groups)
    found = orphans.find(there, "mine")
    assert kinds(found) == EVERY
    assert {thing.id for thing in found.remaining} & {thing.id for thing in orphans.find(there, "other").remaining} == set()
    assert len(found.remaining) == len(EVERY) + 1, "two security groups, one of all else"


def test_remove_deletes_only_own_resources(there: Account, groups: dict[str, str]) -> None:
    build(there, "mine", groups)
    build(there, "other", groups)
    before = orphans.find(there, "other")
    said: list[str] = []
    orphans.remove(there, "mine", said.append)
    assert orphans.find(there, "mine").remaining == ()
    assert orphans.find(there, "other") == before
    assert len(said) == len(EVERY) + 1 and said[0] == "removed schedule mine-end-1"


def test_remove_is_idempotent(there: Account, groups: dict[str, str]) -> None:
    build(there, "mine", groups)
    orphans.remove(there, "mine", lambda _: None)
    orphans.remove(there, "mine", lambda _: None)


def test_mutual_group_rules_are_removed_before_groups(there: Account, groups: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS refuses otherwise (DependencyViolation); moto does not, so that its rules are read before each deletion."""
    build(there, "mine", groups)
    ask, gone = there.ask, []

    def watching(service: str, call: str, **arguments: Any) -> dict[str, Any]:
        if call == "delete_security_group":
            others = [each for each in ask("ec2", "describe_security_groups")["SecurityGroups"] if each["GroupId"] != arguments["GroupId"]]
            assert arguments["GroupId"] not in json.dumps(others)
            gone.append(arguments["GroupId"])
        return ask(service, call, **arguments)

    monkeypatch.setattr(there, "ask", watching)
    orphans.remove(there, "mine", lambda _: None)
    assert len(gone) == 2


def test_remaining_resource_is_reported_with_reason(there: Account, groups: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A volume that is attached elsewhere."""
    build(there, "mine", groups)
    ask = there.ask

    def refusing(service: str, call: str, **arguments: Any) -> dict[str, Any]:
        if call == "delete_volume":
            raise AwsAccessDeniedError("these credentials do not allow the call", path="ec2:delete_volume")
        return ask(service, call, **arguments)

    monkeypatch.setattr(there, "ask", refusing)
    with pytest.raises(RackwrightError) as stuck:
        orphans.remove(there, "mine", lambda _: None)
    assert "1 resources remain" in str(stuck.value) and "do not allow the call" in str(stuck.value)
    assert {thing.kind for thing in orphans.find(there, "mine").remaining} == {"volume"}


def test_denied_query_is_undetermined(there: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    every = there.every

    def refusing(service: str, call: str, *arguments: Any, **more: Any) -> Any:
        if service == "fsx":
            raise AwsAccessDeniedError("these credentials do not allow the call", path="fsx:describe_file_systems")
        return every(service, call, *arguments, **more)

    monkeypatch.setattr(there, "every", refusing)
    assert orphans.find(there, "mine").not_queried == (
        "could not query file system: fsx:describe_file_systems: these credentials do not allow the call",
    )
    with pytest.raises(UndeterminedError, match="could not query file system"):
        orphans.require_empty(there, "mine")


def test_unmanaged_tagged_resource_is_reported_and_kept(there: Account) -> None:
    """A bucket that was tagged by hand."""
    s3 = there.client("s3")
    s3.create_bucket(Bucket="mine-data")
    s3.put_bucket_tagging(Bucket="mine-data", Tagging={"TagSet": tags("mine")})
    assert [str(thing) for thing in orphans.find(there, "mine").remaining] == ["other arn:aws:s3:::mine-data"]
    with pytest.raises(RackwrightError, match="although it has the stack's tag"):
        orphans.remove(there, "mine", lambda _: None)
    assert s3.list_buckets()["Buckets"]


def test_terminating_instances_count_as_deleted(there: Account) -> None:
    ec2 = there.client("ec2")
    image = ec2.register_image(Name="image", RootDeviceName="/dev/sda1")["ImageId"]
    made = ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1, TagSpecifications=born("mine", "instance"))
    assert kinds(orphans.find(there, "mine")) == {"instance"}
    ec2.terminate_instances(InstanceIds=[made["Instances"][0]["InstanceId"]])
    assert kinds(orphans.find(there, "mine")) == set()


# The label


async def _quiet(_: str) -> None:
    pass


OPERATION = RequestContext("urn:x", "mine", "label", False, _quiet, _quiet, _quiet)
INPUTS = {"stack": "mine", "region": "us-east-1"}


def deleted(**outputs: str) -> None:
    """Run the end of a destroy."""
    asyncio.run(StackMarker().delete(OPERATION, RecordedState("mine", INPUTS, {**INPUTS, **outputs})))


def test_stack_marker_records_account(there: Account) -> None:
    made = asyncio.run(StackMarker().create(OPERATION, dict(INPUTS)))
    assert (made.id, made.outputs) == ("mine", {**INPUTS, "account": "123456789012"})


def test_complete_destroy_succeeds(there: Account) -> None:
    deleted(account="123456789012")


def test_incomplete_destroy_fails_with_leftover(there: Account) -> None:
    """A disk that a killed run created and the engine has no record of."""
    disk = there.client("ec2").create_volume(AvailabilityZone="us-east-1a", Size=20, TagSpecifications=born("mine", "volume"))["VolumeId"]
    with pytest.raises(RackwrightError) as left:
        deleted(account="123456789012")
    assert f"volume {disk}" in str(left.value) and "`rackwright down --by-label mine --yes` removes it" in str(left.value)


def test_destroy_with_other_account_fails(there: Account) -> None:
    """In the other account, every resource seems to be deleted."""
    with pytest.raises(RackwrightError, match="is in account 999999999999, but these credentials open 123456789012"):
        deleted(account="999999999999")


def test_destroy_without_credentials_is_undetermined(no_account: None) -> None:
    with pytest.raises(UndeterminedError, match="Unable to locate credentials"):
        deleted(account="123456789012")


# The command


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a stack on AWS that has a stack file."""
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text(paths.stack_file("aws-budget").read_text())
    monkeypatch.setattr(paths, "stack_file", lambda stack: tmp_path / f"Pulumi.{stack}.yaml")
    return "mine"


def test_down_by_label_removes_only_with_yes(there: Account, groups: dict[str, str], run: Run, mine: str) -> None:
    build(there, mine, groups)
    listed = run("down", mine, "--by-label")
    assert listed.code == 1
    assert (
        "volume vol-" in listed.out
        and f"{len(EVERY) + 1} resources of stack mine remain in account 123456789012, us-east-1; pass --yes" in listed.out
    )
    assert kinds(orphans.find(there, mine)) == EVERY
    removed = run("down", mine, "--by-label", "--yes")
    assert removed.code == 0, removed.err
    assert removed.out.splitlines()[-1] == "no resource with the tag of stack mine in account 123456789012, us-east-1"


def test_down_by_label_prints_json(there: Account, run: Run, mine: str) -> None:
    ended = run("down", mine, "--by-label", "--json")
    assert ended.code == 0
    assert json.loads(ended.out) == {"stack": "mine", "account": "123456789012", "region": "us-east-1", "remaining": [], "not_queried": []}


def test_region_option_replaces_stack_file(there: Account, run: Run, mine: str) -> None:
    ended = run("down", "forgotten", "--by-label", "--region", "us-east-1")
    assert (ended.code, ended.out) == (0, "no resource with the tag of stack forgotten in account 123456789012, us-east-1\n")


def test_invalid_stack_file_still_gives_region(there: Account, run: Run, mine: str) -> None:
    """A user edits the file while its instances are billed."""
    file = paths.stack_file(mine)
    file.write_text(file.read_text().replace("zone: us-east-1a", "zone: nowhere"))
    assert run("down", mine, "--by-label").code == 0
    file.write_text(file.read_text().replace(" region: us-east-1", " regin: us-east-1"))
    ended = run("down", mine, "--by-label")
    assert ended.code == 2 and "pass --region REGION" in ended.err


def test_down_by_label_without_credentials_is_undetermined(no_account: None, run: Run, mine: str) -> None:
    ended = run("down", mine, "--by-label")
    assert ended.code == 3 and "Unable to locate credentials" in ended.err
