"""An AWS account of moto's for the session, and throwaway programs that the real engine runs in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from standins.fixtures import AwsAccount, serving, without_aws

SHIM = Path(sys.prefix) / "bin" / "pulumi"
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2cJ8nCGi2CHQbGAqtcFDKyEjZ6vJVxzFLq1Lp0YF3v"
"""Of a key that nobody has."""


@dataclass(frozen=True)
class Program:
    """A Pulumi project in a folder of its own, on a file backend of its own, in the stand-in's account."""

    folder: Path
    account: AwsAccount

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the person's own AWS or Pulumi settings."""
        inherited = {key: value for key, value in without_aws(dict(os.environ)).items() if not key.startswith(("PULUMI_", "RACKWRIGHT_"))}
        return {
            **inherited,
            **self.account.environment,
            "PULUMI_BACKEND_URL": f"file://{self.folder}/state",
            "PULUMI_CONFIG_PASSPHRASE": "standin",
            # Only the last state matters here, and writing it at every step costs more than all else.
            "PULUMI_SKIP_CHECKPOINTS": "true",
            "NO_COLOR": "1",
        }

    def pulumi(self, *arguments: str, code: int | None = 0, **environment: str) -> str:
        """Output of one command, both streams; fails the test unless it exits with `code` (None: any)."""
        done = subprocess.run(
            [SHIM, *arguments, "--color", "never", "--non-interactive"],
            cwd=self.folder,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        assert code is None or done.returncode == code, done.stdout
        return done.stdout

    def up(self, *arguments: str, code: int | None = 0, **environment: str) -> str:
        """`pulumi up` without questions."""
        return self.pulumi("up", "--stack", "dev", "--yes", "--skip-preview", *arguments, code=code, **environment)

    def destroy(self) -> str:
        """`pulumi destroy` without questions."""
        return self.pulumi("destroy", "--stack", "dev", "--yes", "--skip-preview")

    def drift(self) -> str:
        """What a refresh would find."""
        return self.pulumi("refresh", "--stack", "dev", "--preview-only", "--diff")

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs."""
        found: dict[str, Any] = json.loads(self.pulumi("stack", "output", "--stack", "dev", "--json"))
        return found

    def resources(self) -> dict[str, dict[str, Any]]:
        """The engine's record, by resource name and type."""
        state = json.loads((self.folder / "state/.pulumi/stacks/standin/dev.json").read_text())
        found = state["checkpoint"]["latest"].get("resources") or []
        return {f"{one['type'].rpartition(':')[2]} {one['urn'].rpartition('::')[2]}": one for one in found}

    def state_text(self) -> str:
        """The engine's record as it lies on disk."""
        return (self.folder / "state/.pulumi/stacks/standin/dev.json").read_text()


def program(folder: Path, account: AwsAccount, main: str, **config: str) -> Program:
    """A project whose program is the text or the folder `main`, its stack made."""
    (folder / "state").mkdir(parents=True)
    if "\n" in main:
        (folder / "program").mkdir()
        (folder / "program/__main__.py").write_text(main)
        main = str(folder / "program")
    (folder / "Pulumi.yaml").write_text(f"name: standin\nruntime: python\nmain: {main}\n")
    made = Program(folder, account)
    made.pulumi("stack", "init", "dev")
    values = {"aws:region": "us-east-1", **config}
    made.pulumi(
        "config", "set-all", "--stack", "dev", *(word for name, value in values.items() for word in ("--plaintext", f"{name}={value}"))
    )
    return made


@pytest.fixture(scope="session")
def aws_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AwsAccount]:
    """The account of the session; whoever uses it resets it first."""
    with serving(tmp_path_factory.mktemp("aws-account")) as account:
        yield account


@pytest.fixture
def empty_account(aws_account: AwsAccount) -> AwsAccount:
    """The account with nothing of ours in it."""
    aws_account.reset()
    return aws_account
