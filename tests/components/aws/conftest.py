"""An account in moto, in this process: the results are moto's, not AWS's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from moto import mock_aws
from support.cli import CliResult, Run, run_cli

from rackwright.drivers.aws import account as account_room
from rackwright.drivers.aws.account import Account


@pytest.fixture
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """Remove all credentials and cached accounts."""
    for name in (
        "AWS_PROFILE",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_ENDPOINT_URL",
        "AWS_DEFAULT_REGION",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, f"{tmp_path}/none")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def account(no_account: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """Yield an empty account in us-east-1."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    monkeypatch.setattr(account_room, "_client", _client)
    with mock_aws():
        yield Account("us-east-1")


@cache
def _client(service: str, region: str) -> Any:
    """Create clients once for all tests: reading their models takes most of a test's time."""
    return _made(service, region)


_made = account_room._client


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process."""

    def once(*arguments: str) -> CliResult:
        return run_cli(monkeypatch, capsys, *arguments)

    return once
