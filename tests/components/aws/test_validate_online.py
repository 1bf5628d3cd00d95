"""`rackwright validate --online` as a person types it; what it finds is in test_online."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rackwright.drivers.aws.account import Account
from rackwright.inventory import paths

from .conftest import Run

_AMI = "ami-0123456789abcdef0"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A stack file that is good offline; without Lustre, whose quotas moto does not know."""
    file = tmp_path / "Pulumi.mine.yaml"
    text = paths.stack_file("aws-budget").read_text().replace("image: {", f"image: {{id: {_AMI}, ")
    file.write_text("".join(line for line in text.splitlines(keepends=True) if "storage:" not in line and "fsx-lustre" not in line))
    return file


def test_without_credentials_it_could_not_tell(no_account: None, run: Run, mine: Path) -> None:
    """Exit code 3; for programs a finding like any other."""
    ended = run("validate", str(mine), "--online")
    assert ended.code == 3 and ended.err == ""
    assert "could not look: Unable to locate credentials\n  log in (`aws sso login`)" in ended.out
    data = json.loads(run("validate", str(mine), "--online", "--json").out)
    assert data["ok"] is False and data["findings"][-1]["rule"] == "online-account"


def test_what_is_found_online_refuses_like_what_is_found_offline(account: Account, run: Run, mine: Path) -> None:
    """moto has no such image."""
    ended = run("validate", str(mine), "--online")
    assert ended.code == 2
    assert f"target.image: {_AMI} does not exist in us-east-1" in ended.out
    assert "target (info): account 123456789012 in us-east-1, as arn:aws:" in ended.out


def test_other_targets_have_nobody_to_ask(run: Run) -> None:
    ended = run("validate", "lab", "--online")
    assert ended.code == 0 and "target lab has no online checks" in ended.out
