"""An AWS account of moto's for the session, and throwaway programs that the real engine runs in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml
from standins.fixtures import REGION, AwsAccount, serving

from rackwright.yaml_loader import load_yaml

SHIM = Path(sys.prefix) / "bin" / "pulumi"
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2cJ8nCGi2CHQbGAqtcFDKyEjZ6vJVxzFLq1Lp0YF3v"
"""A public key without a private half on record."""


@dataclass(frozen=True)
class Program:
    """A Pulumi project in a folder of its own, on a file backend of its own, in the stand-in's account."""

    folder: Path
    account: AwsAccount

    @property
    def stack_file(self) -> Path:
        """Return the file with config and salt."""
        return self.folder / "Pulumi.dev.yaml"

    @property
    def environment(self) -> dict[str, str]:
        """Return an environment without the user's own AWS or Pulumi settings."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "RACKWRIGHT_"))}
        return {
            **self.account.within(inherited),
            "PULUMI_BACKEND_URL": f"file://{self.folder}/state",
            "PULUMI_CONFIG_PASSPHRASE": "standin",
            # Only the last state matters here, and writing it at every step costs more than everything else.
            "PULUMI_SKIP_CHECKPOINTS": "true",
            "NO_COLOR": "1",
        }

    def pulumi(self, *arguments: str, code: int | None = 0, **environment: str) -> str:
        """Return the output of one command, both streams; fail the test unless it exits with `code` (None: any)."""
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

    def configure(self, **config: Any) -> None:
        """Set the stack's config; the salt stays."""
        described = load_yaml(self.stack_file.read_text())
        settings = {"aws:region": REGION, **{f"standin:{name}": value for name, value in config.items()}}
        self.stack_file.write_text(yaml.safe_dump({**described, "config": {**described.get("config", {}), **settings}}))

    def write(self, text: str) -> None:
        """Write the program's text."""
        (self.folder / "program/__main__.py").write_text(text)

    def up(self, *arguments: str, code: int | None = 0, **environment: str) -> str:
        """Run `pulumi up` without prompts."""
        return self.pulumi("up", "--stack", "dev", "--yes", "--skip-preview", *arguments, code=code, **environment)

    def destroy(self) -> str:
        """Run `pulumi destroy` without prompts."""
        return self.pulumi("destroy", "--stack", "dev", "--yes", "--skip-preview")

    def drift(self) -> str:
        """Return the preview of a refresh."""
        return self.pulumi("refresh", "--stack", "dev", "--preview-only", "--diff")

    def outputs(self) -> dict[str, Any]:
        """Return the stack's recorded outputs."""
        found: dict[str, Any] = self.resources()["Stack standin-dev"]["outputs"]
        return found

    def resources(self) -> dict[str, dict[str, Any]]:
        """Return the engine's record, by resource name and type."""
        state = json.loads((self.folder / "state/.pulumi/stacks/standin/dev.json").read_text())
        found = state["checkpoint"]["latest"].get("resources") or []
        return {f"{one['type'].rpartition(':')[2]} {one['urn'].rpartition('::')[2]}": one for one in found}

    def state_text(self) -> str:
        """Return the engine's record as on disk."""
        return (self.folder / "state/.pulumi/stacks/standin/dev.json").read_text()


@pytest.fixture(scope="session")
def aws_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AwsAccount]:
    """Yield the account of the session; each user resets it first."""
    with serving(tmp_path_factory.mktemp("aws-account")) as account:
        yield account


class NewProgram(Protocol):
    """Creates a project whose program is a text, or the folder `main`."""

    def __call__(self, folder: Path, main: str, **config: Any) -> Program: ...


@pytest.fixture(scope="session")
def new_program(aws_account: AwsAccount, tmp_path_factory: pytest.TempPathFactory) -> NewProgram:
    """Return a factory of projects whose stack exists already: creating one costs a second, copying one nothing."""
    settled = tmp_path_factory.mktemp("settled") / "p"
    (settled / "state").mkdir(parents=True)
    (settled / "Pulumi.yaml").write_text("name: standin\nruntime: python\n")
    Program(settled, aws_account).pulumi("stack", "init", "dev")

    def make(folder: Path, main: str, **config: Any) -> Program:
        shutil.copytree(settled, folder)
        made = Program(folder, aws_account)
        if "\n" in main:
            (folder / "program").mkdir()
            made.write(main)
            main = "program"
        (folder / "Pulumi.yaml").write_text(f"name: standin\nruntime: python\nmain: {main}\n")
        made.configure(**config)
        return made

    return make
