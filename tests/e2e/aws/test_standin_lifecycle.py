"""The whole life of an ordinary pulumi_aws program against the stand-in. The results concern programs, never AWS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from standins.fixtures import ROOT, AwsAccount

from .conftest import PUBLIC_KEY, NewProgram, Program

pytestmark = pytest.mark.engine


@dataclass(frozen=True)
class Cluster:
    """The program of tests/standins/program, up."""

    program: Program
    account: AwsAccount
    previewed: str
    present_after_preview: list[str]
    made: str

    def worker(self, number: int) -> dict[str, Any]:
        """Return EC2's description of a worker."""
        ident = self.program.resources()[f"Instance worker{number}"]["id"]
        found: dict[str, Any] = self.account.client("ec2").describe_instances(InstanceIds=[ident])["Reservations"][0]["Instances"][0]
        return found


def present(account: AwsAccount) -> list[str]:
    """Return every resource of the stack in the account."""
    ec2, iam, name = account.client("ec2"), account.client("iam"), [{"Name": "tag-key", "Values": ["rackwright.stack"]}]
    living = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}]
    found = {
        "vpc": [one["VpcId"] for one in ec2.describe_vpcs(Filters=name)["Vpcs"]],
        "gateway": [one["InternetGatewayId"] for one in ec2.describe_internet_gateways()["InternetGateways"]],
        "address": [one["AllocationId"] for one in ec2.describe_addresses()["Addresses"]],
        "nat": [one["NatGatewayId"] for one in ec2.describe_nat_gateways()["NatGateways"] if one["State"] != "deleted"],
        "instance": [one["InstanceId"] for page in ec2.describe_instances(Filters=living)["Reservations"] for one in page["Instances"]],
        "interface": [one["NetworkInterfaceId"] for one in ec2.describe_network_interfaces()["NetworkInterfaces"]],
        "volume": [one["VolumeId"] for one in ec2.describe_volumes()["Volumes"] if one["Size"] in (20, 40)],
        "template": [one["LaunchTemplateId"] for one in ec2.describe_launch_templates()["LaunchTemplates"]],
        "group": [one["GroupName"] for one in ec2.describe_placement_groups()["PlacementGroups"]],
        "reservation": [
            one["CapacityReservationId"]
            for one in ec2.describe_capacity_reservations()["CapacityReservations"]
            if one["State"] != "cancelled"
        ],
        "key": [one["KeyName"] for one in ec2.describe_key_pairs()["KeyPairs"]],
        "role": [one["RoleName"] for one in iam.list_roles()["Roles"]],
        "profile": [one["InstanceProfileName"] for one in iam.list_instance_profiles()["InstanceProfiles"]],
        "bucket": [one["Name"] for one in account.client("s3").list_buckets()["Buckets"]],
        "file system": [one["FileSystemId"] for one in account.client("fsx").describe_file_systems()["FileSystems"]],
        "budget": [one["BudgetName"] for one in account.client("budgets").describe_budgets(AccountId="123456789012")["Budgets"]],
        "schedule": [one["Name"] for one in account.client("scheduler").list_schedules()["Schedules"]],
    }
    return [f"{kind} {ident}" for kind, idents in found.items() for ident in idents]


@pytest.fixture(scope="module")
def cluster(aws_account: AwsAccount, new_program: NewProgram, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Return the cluster, previewed and deployed."""
    aws_account.reset()
    made = new_program(tmp_path_factory.mktemp("cluster") / "p", str(ROOT / "tests/standins/program"), key=PUBLIC_KEY)
    previewed = made.pulumi("preview", "--stack", "dev")
    untouched = present(aws_account)
    return Cluster(made, aws_account, previewed, untouched, made.up())


def test_preview_matches_up_and_creates_nothing(cluster: Cluster) -> None:
    assert "+ 46 to create" in cluster.previewed
    assert cluster.present_after_preview == []
    assert "+ 46 created" in cluster.made


def test_second_up_changes_nothing(cluster: Cluster) -> None:
    assert "46 unchanged" in cluster.program.up("--expect-no-changes")


def test_refresh_of_unchanged_resources_finds_nothing(cluster: Cluster) -> None:
    assert "46 unchanged" in cluster.program.drift()


def test_outputs_have_declared_types(cluster: Cluster) -> None:
    """The package flattens lists with at most one item; a list in their place would crash the program."""
    outputs = cluster.program.outputs()
    assert outputs["subnet of the file system"].startswith("subnet-")
    assert outputs["one image"] is True
    assert outputs["spot"] == "spot"
    assert outputs["mount"]


def test_launch_keeps_types_of_eight_cards(cluster: Cluster) -> None:
    interfaces = sorted(cluster.worker(0)["NetworkInterfaces"], key=lambda one: one["Attachment"]["NetworkCardIndex"])
    seen = [(one["Attachment"]["NetworkCardIndex"], one["Attachment"]["DeviceIndex"], one["InterfaceType"]) for one in interfaces]
    assert seen == [(0, 0, "efa"), *((card, 1, "efa-only") for card in range(1, 8))]


def test_instance_follows_its_template(cluster: Cluster) -> None:
    worker, record = cluster.worker(0), cluster.program.resources()
    assert worker["Placement"]["GroupName"] == record["PlacementGroup tight"]["id"]
    assert worker["CapacityReservationId"] == record["CapacityReservation reserved"]["id"]
    assert worker["IamInstanceProfile"]["Arn"] == record["InstanceProfile node"]["outputs"]["arn"]
    assert worker["InstanceType"] == "p5.48xlarge"


def test_security_group_denies_undeclared_egress(cluster: Cluster) -> None:
    ident = cluster.program.resources()["SecurityGroup door"]["id"]
    group = cluster.account.client("ec2").describe_security_groups(GroupIds=[ident])["SecurityGroups"][0]
    assert group["IpPermissionsEgress"] == []
    assert [rule["IpRanges"][0]["CidrIp"] for rule in group["IpPermissions"]] == ["192.0.2.0/24"]


def test_refresh_reports_and_up_repairs_external_changes(cluster: Cluster) -> None:
    ec2, record = cluster.account.client("ec2"), cluster.program.resources()
    lost = cluster.worker(1)["InstanceId"]
    ec2.terminate_instances(InstanceIds=[lost])
    ec2.create_tags(Resources=[record["Vpc net"]["id"]], Tags=[{"Key": "who", "Value": "another-user"}])
    hole = [{"IpProtocol": "tcp", "FromPort": 23, "ToPort": 23, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
    ec2.authorize_security_group_ingress(GroupId=record["SecurityGroup door"]["id"], IpPermissions=hole)
    cluster.account.client("iam").detach_role_policy(
        RoleName=record["Role node"]["id"], PolicyArn="arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
    )

    said = cluster.program.drift()
    assert all(word in said for word in (lost, "who", "another-user", "0.0.0.0/0", "AmazonSSMManagedInstanceCore")), said
    assert "~ 2 to update" in said
    assert "- 2 to delete" in said
    assert "42 unchanged" in said

    cluster.program.up("--refresh")
    assert "46 unchanged" in cluster.program.drift()
    assert cluster.worker(1)["InstanceId"] != lost


def test_changed_program_updates_in_place(cluster: Cluster) -> None:
    before = cluster.program.resources()
    changed = {"capacity": 2400, "limit": "200.5", "size": 40, "login": "t3.large", "night": "cron(0 22 * * ? *)", "tokens": "optional"}
    cluster.program.configure(**changed)
    said = cluster.program.up()
    # In place: file system, budget, disk, login, schedule, template. The workers depend on the template's version.
    assert "~ 6 updated" in said
    assert "+-2 replaced" in said

    after = cluster.program.resources()
    kept = {name for name in before if before[name].get("id") == after[name].get("id")}
    assert before.keys() - kept == {"Instance worker0", "Instance worker1"}
    assert cluster.worker(0)["MetadataOptions"]["HttpTokens"] == "optional"
    ec2, account = cluster.account.client("ec2"), cluster.account
    login = ec2.describe_instances(InstanceIds=[after["Instance login"]["id"]])["Reservations"][0]["Instances"][0]
    assert (login["InstanceType"], login["State"]["Name"]) == ("t3.large", "running")
    assert ec2.describe_volumes(VolumeIds=[after["Volume home"]["id"]])["Volumes"][0]["Size"] == 40
    assert account.client("fsx").describe_file_systems()["FileSystems"][0]["StorageCapacity"] == 2400
    assert account.client("budgets").describe_budgets(AccountId="123456789012")["Budgets"][0]["BudgetLimit"]["Amount"] == "200.5"
    scheduled = account.client("scheduler").get_schedule(Name=after["Schedule stop-at-night"]["outputs"]["name"])
    assert scheduled["ScheduleExpression"] == "cron(0 22 * * ? *)"
    assert cluster.worker(0)["InstanceId"] in scheduled["Target"]["Input"]


def test_destroy_leaves_nothing(cluster: Cluster) -> None:
    cluster.account.client("s3").put_object(Bucket=cluster.program.resources()["Bucket data"]["id"], Key="k", Body=b"v")
    assert present(cluster.account) != []
    assert "- 46 deleted" in cluster.program.destroy()
    assert present(cluster.account) == []
