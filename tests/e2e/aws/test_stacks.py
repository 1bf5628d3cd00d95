"""The committed aws stacks on the real engine, in the account of the stand-in: wiring, types, order, teardown.

Nothing here is EC2. The program is the project's own without its last two steps, since there is no machine to converge.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from standins.fixtures import AwsAccount
from support.aws_stack import clone_aws_stack
from support.project import Project

from rackwright.catalog.instances import instance_types
from rackwright.drift import resources
from rackwright.drift.difference import Category, LayerScan
from rackwright.yaml_loader import load_yaml

pytestmark = pytest.mark.engine

STACKS = ("aws-budget", "aws-p5", "aws-cpu", "aws-inf2")


@pytest.fixture(params=[pytest.param("aws-budget", marks=pytest.mark.essential), *STACKS[1:]])
def project(request: pytest.FixtureRequest, tmp_path: Path, aws_account: AwsAccount) -> Project:
    """Return each committed stack, not deployed yet, in an empty account."""
    aws_account.reset()
    return clone_aws_stack(request.param, tmp_path, aws_account)


def instances(account: AwsAccount, project: Project) -> dict[str, dict[str, Any]]:
    """Return the account's running and stopped instances by name."""
    region = project.environment["AWS_REGION"]
    living = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopped"]}]
    found = account.client("ec2", region).describe_instances(Filters=living)["Reservations"]
    names = {}
    for one in (instance for reservation in found for instance in reservation["Instances"]):
        tags = {tag["Key"]: tag["Value"] for tag in one["Tags"]}
        names[tags["Name"].removeprefix(f"{project.stack}-")] = one
    return names


def test_stack_lifecycle_leaves_nothing(project: Project, aws_account: AwsAccount) -> None:
    made = project.run_checked("up")
    described = load_yaml(project.stack_file.read_text())["config"]["rackwright:cluster"]
    living = instances(aws_account, project)
    wanted = {f"{name}{index}": name for name, group in described["groups"].items() for index in range(group["count"])}
    assert set(living) == set(wanted), made.output
    for name, group in wanted.items():
        declared = described["target"]["instances"][group]
        assert living[name]["InstanceType"] == declared["type"]
        interfaces = living[name]["NetworkInterfaces"]
        assert len(interfaces) == (instance_types()[declared["type"]].efa_interfaces if declared.get("efa") else 1)

    again = project.run_checked("up", "--expect-no-changes")
    assert "unchanged" in again.output

    lost = next(name for name, group in wanted.items() if group != "login")
    ec2 = aws_account.client("ec2", project.environment["AWS_REGION"])
    ec2.terminate_instances(InstanceIds=[living[lost]["InstanceId"]])
    seen = project.run([*project.pulumi_command("refresh")[:-2], "--preview-only", "--diff"])
    assert lost in seen.output, seen.output
    project.run_checked("up", "--refresh")
    healed = instances(aws_account, project)
    assert set(healed) == set(wanted) and healed[lost]["InstanceId"] != living[lost]["InstanceId"]
    assert healed[lost]["PrivateIpAddress"] == living[lost]["PrivateIpAddress"]

    urn = project.resources()[lost]["urn"]
    replaced = project.run_checked("up", "--replace", urn)
    anew = instances(aws_account, project)
    assert anew[lost]["InstanceId"] != healed[lost]["InstanceId"], replaced.output
    assert anew[lost]["PrivateIpAddress"] == healed[lost]["PrivateIpAddress"], "its address is free again before it is taken"
    others = set(wanted) - {lost}
    assert {name: anew[name]["InstanceId"] for name in others} == {name: healed[name]["InstanceId"] for name in others}

    project.run_checked("destroy")
    assert remaining_resources(aws_account, project) == []


def test_drift_reports_external_account_changes(tmp_path: Path, aws_account: AwsAccount) -> None:
    aws_account.reset()
    project = clone_aws_stack("aws-budget", tmp_path, aws_account)
    project.run_checked("up")
    assert scan_resources(project).differences == ()
    ec2 = aws_account.client("ec2", project.environment["AWS_REGION"])
    lost = next(name for name in instances(aws_account, project) if not name.startswith("login"))
    ec2.terminate_instances(InstanceIds=[instances(aws_account, project)[lost]["InstanceId"]])
    hole = [{"IpProtocol": "tcp", "FromPort": 23, "ToPort": 23, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
    login = next(name for name in instances(aws_account, project) if name.startswith("login"))
    ec2.stop_instances(InstanceIds=[instances(aws_account, project)[login]["InstanceId"]])
    ec2.authorize_security_group_ingress(GroupId=project.resources()["entry-rules"]["id"], IpPermissions=hole)
    found = scan_resources(project)
    told = {(one.node, one.subject): one for one in found.differences}
    assert (lost, "instance.exists") in told and found.unknown == (), told
    assert told["", "securitygroup entry-rules.ingress tcp 23 from 0.0.0.0/0"].category is Category.SECURITY
    assert told[login, "instance.status"].live in ("stopping", "stopped")
    assert len(told) == 3, told
    project.run_checked("destroy")


def scan_resources(project: Project) -> LayerScan:
    """Return the resources layer of a drift scan; the other two need machines."""
    log = project.folder / "events"
    log.unlink(missing_ok=True)
    project.environment["PULUMI_DEBUG_COMMANDS"] = "true"
    said = project.run([*project.pulumi_command("refresh")[:-2], "--preview-only", "--event-log", str(log)])
    assert said.ok, said.end
    return resources.scan(project.stack, said.seconds, resources.events(log.read_text()))


def remaining_resources(account: AwsAccount, project: Project) -> list[str]:
    """Return existing resources with the stack's tag."""
    region = project.environment["AWS_REGION"]
    tagged = account.client("resourcegroupstaggingapi", region).get_resources(
        TagFilters=[{"Key": "rackwright.stack", "Values": [project.stack]}]
    )["ResourceTagMappingList"]
    gone = ended_resources(account, region)
    return sorted(one["ResourceARN"] for one in tagged if one["ResourceARN"].rpartition("/")[2] not in gone)


def ended_resources(account: AwsAccount, region: str) -> set[str]:
    """Return instances and NAT gateways that EC2 lists for an hour after their end."""
    ec2 = account.client("ec2", region)
    instances = ec2.describe_instances(Filters=[{"Name": "instance-state-name", "Values": ["terminated"]}])["Reservations"]
    gateways = ec2.describe_nat_gateways(Filters=[{"Name": "state", "Values": ["deleted"]}])["NatGateways"]
    return {one["InstanceId"] for reservation in instances for one in reservation["Instances"]} | {one["NatGatewayId"] for one in gateways}


@pytest.mark.parametrize("stack", STACKS)
def test_preview_of_whole_program_creates_nothing(stack: str, tmp_path: Path, aws_account: AwsAccount) -> None:
    aws_account.reset()
    project = clone_aws_stack(stack, tmp_path, aws_account, whole=True)
    said = project.run_checked("preview")
    assert "rackwright:ansible:Converge converge create" in said.output
    assert instances(aws_account, project) == {}
