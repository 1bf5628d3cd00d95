"""Extensions of the moto server, tested through plain boto3."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from standins.fixtures import AwsAccount


@pytest.fixture(scope="module")
def account(aws_account: AwsAccount) -> AwsAccount:
    """Return the account without any resource."""
    aws_account.reset()
    return aws_account


@pytest.fixture(scope="module")
def subnet(account: AwsAccount) -> str:
    """Return a subnet for launches."""
    ec2 = account.client("ec2")
    net = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    return str(ec2.create_subnet(VpcId=net, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"])


def refused(code: str) -> Any:
    """Assert that the service refuses a call with this code."""
    return pytest.raises(ClientError, match=rf"\({code}\)")


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_canonical_parameter_names_existing_image(account: AwsAccount, architecture: str) -> None:
    path = f"/aws/service/canonical/ubuntu/server/24.04/stable/current/{architecture}/hvm/ebs-gp3/ami-id"
    for region in ("us-east-1", "eu-west-1"):
        named = account.client("ssm", region).get_parameter(Name=path)["Parameter"]["Value"]
        image = account.client("ec2", region).describe_images(ImageIds=[named])["Images"][0]
        assert image["Name"].startswith(f"ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-{architecture}-server-")
        assert image["OwnerId"] == "099720109477"


def test_filters_find_image(account: AwsAccount) -> None:
    wanted = [
        {"Name": "name", "Values": ["ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-*"]},
        {"Name": "architecture", "Values": ["x86_64"]},
    ]
    found = account.client("ec2").describe_images(Owners=["099720109477"], Filters=wanted)["Images"]
    assert [one["Architecture"] for one in found] == ["x86_64"]


def test_used_placement_group_is_not_deleted(account: AwsAccount, subnet: str) -> None:
    ec2 = account.client("ec2")
    ec2.create_placement_group(GroupName="tight", Strategy="cluster")
    with refused("InvalidPlacementGroup.Duplicate"):
        ec2.create_placement_group(GroupName="tight", Strategy="cluster")
    launched = {"ImageId": "ami-0", "MinCount": 1, "MaxCount": 1, "SubnetId": subnet}
    with refused("InvalidPlacementGroup.Unknown"):
        ec2.run_instances(**launched, Placement={"GroupName": "other"})
    host = ec2.run_instances(**launched, Placement={"GroupName": "tight"})["Instances"][0]["InstanceId"]
    with refused("InvalidPlacementGroup.InUse"):
        ec2.delete_placement_group(GroupName="tight")
    ec2.terminate_instances(InstanceIds=[host])
    ec2.delete_placement_group(GroupName="tight")
    assert ec2.describe_placement_groups()["PlacementGroups"] == []


def test_instances_use_and_free_reserved_capacity(account: AwsAccount, subnet: str) -> None:
    ec2 = account.client("ec2")
    reserved = ec2.create_capacity_reservation(
        InstanceType="p5.48xlarge", InstancePlatform="Linux/UNIX", InstanceCount=1, AvailabilityZone="us-east-1a"
    )
    ident = reserved["CapacityReservation"]["CapacityReservationId"]
    target = {"CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": ident}}}
    launched = {"ImageId": "ami-0", "MinCount": 1, "MaxCount": 1, "SubnetId": subnet, **target}
    host = ec2.run_instances(**launched)["Instances"][0]["InstanceId"]
    with refused("ReservationCapacityExceeded"):
        ec2.run_instances(**launched)
    ec2.terminate_instances(InstanceIds=[host])
    shown = ec2.describe_capacity_reservations(CapacityReservationIds=[ident])["CapacityReservations"][0]
    assert shown["AvailableInstanceCount"] == 1


def test_capacity_block_is_bought_once_and_stays(account: AwsAccount) -> None:
    ec2, asked = account.client("ec2"), {"InstanceType": "p5.48xlarge", "InstanceCount": 2, "CapacityDurationHours": 24}
    first, second = (
        ec2.describe_capacity_block_offerings(**asked)["CapacityBlockOfferings"][0]["CapacityBlockOfferingId"] for _ in range(2)
    )
    assert first != second
    bought = ec2.purchase_capacity_block(CapacityBlockOfferingId=first, InstancePlatform="Linux/UNIX")["CapacityReservation"]
    assert (bought["ReservationType"], bought["State"], bought["TotalInstanceCount"]) == ("capacity-block", "scheduled", 2)
    with refused("InvalidCapacityBlockOfferingId.NotFound"):
        ec2.purchase_capacity_block(CapacityBlockOfferingId=first, InstancePlatform="Linux/UNIX")
    with refused("Unsupported"):
        ec2.cancel_capacity_reservation(CapacityReservationId=bought["CapacityReservationId"])


def test_launch_refuses_subnet_beside_template_interfaces(account: AwsAccount, subnet: str) -> None:
    ec2 = account.client("ec2")
    data = {"ImageId": "ami-0", "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": subnet}]}
    ec2.create_launch_template(LaunchTemplateName="one", LaunchTemplateData=data)
    with refused("InvalidParameterCombination"):
        ec2.run_instances(LaunchTemplate={"LaunchTemplateName": "one"}, MinCount=1, MaxCount=1, SubnetId=subnet)


def test_second_template_version_launches(account: AwsAccount, subnet: str) -> None:
    ec2 = account.client("ec2")
    ec2.create_launch_template(LaunchTemplateName="two", LaunchTemplateData={"ImageId": "ami-0", "UserData": "Zmlyc3Q="})
    ec2.create_launch_template_version(LaunchTemplateName="two", LaunchTemplateData={"ImageId": "ami-1", "UserData": "c2Vjb25k"})
    named = {"LaunchTemplateName": "two", "Version": "2"}
    host = ec2.run_instances(LaunchTemplate=named, MinCount=1, MaxCount=1, SubnetId=subnet)["Instances"][0]
    told = ec2.describe_instance_attribute(InstanceId=host["InstanceId"], Attribute="userData")
    assert (host["ImageId"], told["UserData"]["Value"]) == ("ami-1", "c2Vjb25k")


def test_file_system_has_lifecycle_and_mount_name(account: AwsAccount, subnet: str) -> None:
    fsx, lustre = account.client("fsx"), {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125}
    asked = {"FileSystemType": "LUSTRE", "StorageCapacity": 1200, "SubnetIds": [subnet], "LustreConfiguration": lustre}
    ident = fsx.create_file_system(**asked)["FileSystem"]["FileSystemId"]
    fsx.update_file_system(FileSystemId=ident, StorageCapacity=2400, LustreConfiguration={"DataCompressionType": "LZ4"})
    shown = fsx.describe_file_systems(FileSystemIds=[ident])["FileSystems"][0]
    assert (shown["Lifecycle"], shown["StorageCapacity"]) == ("AVAILABLE", 2400)
    assert shown["VpcId"].startswith("vpc-")
    assert shown["LustreConfiguration"]["MountName"]
    assert shown["LustreConfiguration"]["PerUnitStorageThroughput"] == 125
    assert shown["LustreConfiguration"]["DataCompressionType"] == "LZ4"
    linked = fsx.create_data_repository_association(FileSystemId=ident, FileSystemPath="/d", DataRepositoryPath="s3://d")["Association"]
    fsx.delete_data_repository_association(AssociationId=linked["AssociationId"])
    with refused("DataRepositoryAssociationNotFound"):
        fsx.describe_data_repository_associations(AssociationIds=[linked["AssociationId"]])
    fsx.delete_file_system(FileSystemId=ident)
    with refused("FileSystemNotFound"):
        fsx.describe_file_systems(FileSystemIds=[ident])


def test_deleted_resource_is_reported_as_not_found(account: AwsAccount) -> None:
    with refused("NatGatewayNotFound"):
        account.client("ec2").delete_nat_gateway(NatGatewayId="nat-0")


def test_reset_deletes_added_resources(account: AwsAccount) -> None:
    ec2 = account.client("ec2")
    ec2.create_placement_group(GroupName="left", Strategy="spread")
    account.reset()
    assert ec2.describe_placement_groups()["PlacementGroups"] == []
