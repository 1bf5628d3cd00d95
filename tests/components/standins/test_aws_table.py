"""The stand-in's table of AWS resource types, compared with pulumi_aws's declarations."""

from __future__ import annotations

import pytest
from standins.aws import schema
from standins.aws.functions import FUNCTIONS
from standins.aws.registry import KINDS

NEEDED = {
    "aws:ec2/vpc:Vpc",
    "aws:ec2/subnet:Subnet",
    "aws:ec2/internetGateway:InternetGateway",
    "aws:ec2/eip:Eip",
    "aws:ec2/eipAssociation:EipAssociation",
    "aws:ec2/natGateway:NatGateway",
    "aws:ec2/routeTable:RouteTable",
    "aws:ec2/route:Route",
    "aws:ec2/routeTableAssociation:RouteTableAssociation",
    "aws:ec2/vpcEndpoint:VpcEndpoint",
    "aws:ec2/securityGroup:SecurityGroup",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
    "aws:ec2/keyPair:KeyPair",
    "aws:ec2/launchTemplate:LaunchTemplate",
    "aws:ec2/instance:Instance",
    "aws:ec2/placementGroup:PlacementGroup",
    "aws:ec2/capacityReservation:CapacityReservation",
    "aws:ec2/capacityBlockReservation:CapacityBlockReservation",
    "aws:ec2/networkInterface:NetworkInterface",
    "aws:iam/role:Role",
    "aws:iam/rolePolicy:RolePolicy",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
    "aws:iam/instanceProfile:InstanceProfile",
    "aws:s3/bucket:Bucket",
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
    "aws:fsx/lustreFileSystem:LustreFileSystem",
    "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation",
    "aws:budgets/budget:Budget",
    "aws:scheduler/schedule:Schedule",
    "aws:ebs/volume:Volume",
    "aws:ec2/volumeAttachment:VolumeAttachment",
}


def test_table_has_every_resource_type_of_aws_target() -> None:
    assert KINDS.keys() >= NEEDED
    assert len(FUNCTIONS) >= 7


@pytest.mark.parametrize("token", sorted(KINDS))
def test_rows_name_existing_inputs(token: str) -> None:
    """A misspelt name would change nothing but the plan."""
    kind, inputs = KINDS[token], schema.shape(token).inputs.keys()
    assert kind.moves <= schema.shape(token).outputs.keys()
    named = kind.force | kind.settle.keys() | kind.late | kind.local
    assert named - inputs == set()
    assert kind.late <= kind.settle.keys()
    assert kind.force & kind.settle.keys() == set(), "either in place or by replacement"
    assert not kind.autoname or kind.autoname.property in inputs
