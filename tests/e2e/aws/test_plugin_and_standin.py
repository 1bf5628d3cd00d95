"""The project's own plugin beside the stand-in, in one program: the base for tests of real stacks in this account."""

from __future__ import annotations

from pathlib import Path

import pytest
from standins.fixtures import AwsAccount
from support.project import clone

pytestmark = pytest.mark.engine

PROGRAM = """
import pulumi
import pulumi_aws as aws
from rackwright.targets.resources import SshKeyPair

made = SshKeyPair("access-key", comment="test")
pulumi.export("key", aws.ec2.KeyPair("access", public_key=made.public_key).key_name)
"""


def test_both_plugins_serve_one_program(aws_account: AwsAccount, tmp_path: Path) -> None:
    project = clone(tmp_path / "checkout")
    project.environment = aws_account.within(project.environment)
    (project.folder / "infra/__main__.py").write_text(PROGRAM)
    project.run_checked("up")
    name = project.resources()["access"]["id"]
    assert aws_account.client("ec2").describe_key_pairs(KeyNames=[name])["KeyPairs"][0]["KeyType"] == "ed25519"
    assert "3 unchanged" in project.run_checked("refresh").output
    project.run_checked("destroy")
    assert name not in [pair["KeyName"] for pair in aws_account.client("ec2").describe_key_pairs()["KeyPairs"]]
