"""Errors that a provider's stand-in could hide, one small program each, on the real engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import NewProgram

pytestmark = pytest.mark.engine

HEAD = "import pulumi\nimport pulumi_aws as aws\nconfig = pulumi.Config()\n"
HOSTS = """
net = aws.ec2.Vpc("net", cidr_block="10.0.0.0/16")
subnet = aws.ec2.Subnet("net", vpc_id=net.id, cidr_block="10.0.0.0/24")
for name in ("given", None):
    group = aws.ec2.PlacementGroup(f"{name}-group", strategy=config.require("strategy"), name=name)
    aws.ec2.Instance(f"{name}-host", ami="ami-0", instance_type="t3.micro", subnet_id=subnet.id, placement_group=group.id)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a program."""
    return tmp_path / "p"


def place(said: str, event: str) -> int:
    """Return the line that reports an event."""
    lines = said.splitlines()
    found = [number for number, line in enumerate(lines) if event in " ".join(line.split())]
    assert found, f"{event}: never\n{said}"
    return found[0]


def in_order(said: str, *events: str) -> bool:
    """Return whether the events occur in this order."""
    places = [place(said, event) for event in events]
    return places == sorted(places)


def test_replacement_order_depends_on_generated_or_given_name(folder: Path, new_program: NewProgram) -> None:
    """A group cannot be deleted while a host is in it: moto refuses that, too."""
    made = new_program(folder, HEAD + HOSTS, strategy="cluster")
    made.up()
    made.configure(strategy="spread")
    said = made.up()
    new, old = "created replacement", "deleted original"
    assert in_order(said, f"None-group {new}", f"None-host {new}", f"None-host {old}", f"None-group {old}"), said
    assert in_order(said, f"given-host {old}", f"given-group {old}", f"given-group {new}", f"given-host {new}"), said
    assert made.resources()["PlacementGroup given-group"]["id"] == "given"
    assert made.resources()["PlacementGroup None-group"]["id"].startswith("None-group-")


SECRET = """
secret = pulumi.Output.secret("correct-horse-battery")
net = aws.ec2.Vpc("net", cidr_block="10.0.0.0/16", tags={"phrase": secret})
subnet = aws.ec2.Subnet("net", vpc_id=net.id, cidr_block="10.0.0.0/24")
aws.ec2.Instance("host", ami="ami-0", instance_type="t3.micro", subnet_id=subnet.id, user_data=pulumi.Output.concat("key=", secret))
ubuntu = "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"
pulumi.export("image", aws.ssm.get_parameter_output(name=ubuntu).value)
"""


def test_secret_is_marked_under_every_name(folder: Path, new_program: NewProgram) -> None:
    """`tags` appear in `tagsAll`, too; user data contains the secret among other words; a parameter's `value` is secret on its own."""
    made = new_program(folder, HEAD + SECRET)
    said = made.up() + made.up("--refresh", "--diff")
    assert "correct-horse" not in said + made.state_text()
    assert "[secret]" in said
    assert "image: [secret]" in " ".join(said.split())
    net = made.account.client("ec2").describe_vpcs(VpcIds=[made.resources()["Vpc net"]["id"]])["Vpcs"][0]
    assert {"Key": "phrase", "Value": "correct-horse-battery"} in net["Tags"]


BLOCKS = """
for name, ignored in (("careless", []), ("careful", ["capacityBlockOfferingId"])):
    offering = aws.ec2.get_capacity_block_offering(instance_type="p5.48xlarge", instance_count=1, capacity_duration_hours=24)
    aws.ec2.CapacityBlockReservation(
        name,
        capacity_block_offering_id=offering.capacity_block_offering_id,
        instance_platform="Linux/UNIX",
        opts=pulumi.ResourceOptions(ignore_changes=ignored),
    )
"""


def test_preview_replaces_capacity_block_unless_offering_ignored(folder: Path, new_program: NewProgram) -> None:
    """Each query returns another offering: a second purchase is visible in the plan."""
    made = new_program(folder, HEAD + BLOCKS)
    made.up()
    said = made.pulumi("preview", "--stack", "dev")
    assert "careless replace" in " ".join(said.split())
    assert "+-1 to replace" in said


WRONG = """
aws.ec2.LaunchTemplate("template", placement={"groupName": "a", "colour": "red"}, image_id=5)
"""


def test_undeclared_inputs_are_refused(folder: Path, new_program: NewProgram) -> None:
    said = new_program(folder, HEAD + WRONG).pulumi("preview", "--stack", "dev", code=1)
    assert "placement.colour" in said
    assert "pulumi_aws knows no such property of LaunchTemplatePlacement" in said
    assert "expected str, got int" in said


GUARDED = """
cloud = aws.Provider("cloud", region="eu-west-1", allowed_account_ids=[config.require("allowed")], default_tags={"tags": {"owner": "us"}})
net = aws.ec2.Vpc("net", cidr_block="10.0.0.0/16", opts=pulumi.ResourceOptions(provider=cloud))
pulumi.export("tags", net.tags_all)
pulumi.export("arn", net.arn)
"""


def test_explicit_provider_uses_its_region_and_account(folder: Path, new_program: NewProgram) -> None:
    made = new_program(folder, HEAD + GUARDED, allowed="111111111111")
    assert "AWS account ID not allowed: 123456789012" in made.up(code=1)
    made.configure(allowed="123456789012")
    made.up()
    assert made.outputs()["tags"] == {"owner": "us"}
    assert made.outputs()["arn"].startswith("arn:aws:ec2:eu-west-1:123456789012:vpc/vpc-")


NET = 'aws.ec2.Vpc("net", cidr_block="10.0.0.0/16")\n'


def test_standin_refuses_missing_endpoint(folder: Path, new_program: NewProgram) -> None:
    said = new_program(folder, HEAD + NET).up(code=1, AWS_ENDPOINT_URL="")
    assert "the stand-in for the aws provider has no endpoint for ec2: it never talks to AWS" in said


def test_standin_reports_unknown_resource(folder: Path, new_program: NewProgram) -> None:
    said = new_program(folder, HEAD + 'aws.sqs.Queue("queue")\n').up(code=1)
    assert "the stand-in for the aws provider has no resource aws:sqs/queue:Queue" in said
