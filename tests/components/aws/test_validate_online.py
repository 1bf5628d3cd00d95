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
    """Return a stack file that is valid offline; without Lustre, whose quotas moto does not model."""
    file = tmp_path / "Pulumi.mine.yaml"
    text = paths.stack_file("aws-budget").read_text().replace("image: {", f"image: {{id: {_AMI}, ")
    file.write_text("".join(line for line in text.splitlines(keepends=True) if "storage:" not in line and "fsx-lustre" not in line))
    return file


def test_validate_online_without_credentials_is_undetermined(no_account: None, run: Run, mine: Path) -> None:
    """Exit code 3; for programs a finding like any other."""
    ended = run("validate", str(mine), "--online")
    assert ended.code == 3 and ended.err == ""
    assert "not checked: Unable to locate credentials\n  log in (`aws sso login`)" in ended.out
    data = json.loads(run("validate", str(mine), "--online", "--json").out)
    assert data["ok"] is False and data["findings"][-1]["rule"] == "online-account"


def test_online_error_has_offline_exit_code(account: Account, run: Run, mine: Path) -> None:
    """moto has no such image."""
    ended = run("validate", str(mine), "--online")
    assert ended.code == 2
    assert f"target.image: {_AMI} does not exist in us-east-1" in ended.out
    assert "target (info): account 123456789012 in us-east-1, as arn:aws:" in ended.out


def test_validate_online_refuses_other_targets(run: Run) -> None:
    ended = run("validate", "lab", "--online")
    assert ended.code == 0 and "target lab has no online checks" in ended.out
