"""A copy of the project with an aws stack, in the account of a moto server."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from standins.fixtures import AwsAccount
from support.project import ROOT, Project, clone

from rackwright.yaml_loader import load_yaml

_IMAGE: Final = "ami-0123456789abcdef0"
_PROGRAM: Final = '''"""The program up to the inventory."""

import pulumi

from rackwright import targets
from rackwright.targets import program
from rackwright.targets.resources import SshKeyPair

plan = program.load(pulumi.Config().require_object("cluster"), pulumi.get_stack()).plan
built = targets.target(plan.target.kind).build(plan, SshKeyPair("access-key", comment="test").public_key)
pulumi.export("hosts", built.hosts)
pulumi.export("sources", built.sources)
'''


def clone_aws_stack(stack: str, folder: Path, account: AwsAccount, *, whole: bool = False) -> Project:
    """Return a copy of the project with a stack like a committed one: its image pinned, local state allowed."""
    made = clone(folder / "checkout", like=stack)
    described = load_yaml((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text())["config"]["rackwright:cluster"]

    def pinned(cluster: dict[str, Any]) -> None:
        cluster.update(network=described["network"], access={"allowed_cidrs": ["11.22.33.0/24"]}, allow_local_state=True)
        cluster["target"]["image"]["id"] = _IMAGE
        for instances in cluster["target"]["instances"].values():
            if "reservation" in instances.get("capacity_type", {}):
                instances["capacity_type"]["reservation"] = buy_capacity_block(account, described["target"]["region"], instances["type"])

    made.edit(pinned)
    made.environment = {**account.within(made.environment), "AWS_REGION": described["target"]["region"], "PULUMI_SKIP_CHECKPOINTS": "true"}
    if not whole:
        (made.folder / "infra/__main__.py").write_text(_PROGRAM)
    return made


def buy_capacity_block(account: AwsAccount, region: str, type_: str) -> str:
    """Buy a capacity block with space for the instances and for their replacements; return its id."""
    ec2 = account.client("ec2", region)
    offers = ec2.describe_capacity_block_offerings(InstanceType=type_, InstanceCount=8, CapacityDurationHours=24)["CapacityBlockOfferings"]
    block = ec2.purchase_capacity_block(CapacityBlockOfferingId=offers[0]["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX")
    return str(block["CapacityReservation"]["CapacityReservationId"])
