"""A simulated AWS account: the moto server, and an environment in which the real engine uses the stand-in for the aws provider."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import boto3

ROOT: Final = Path(__file__).resolve().parents[2]
REGION: Final = "us-east-1"
_PROVIDER: Final = "resource-aws-v7.51.1"
"""The folder name has kind, name and version; the engine accepts an exact match without a check."""


@dataclass(frozen=True)
class AwsAccount:
    """One moto server and a Pulumi home with the stand-in plugin."""

    endpoint: str
    pulumi_home: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment with which an engine works in this account only."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "standin",
            "AWS_SECRET_ACCESS_KEY": "standin",
            "AWS_REGION": REGION,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "PULUMI_HOME": str(self.pulumi_home),
            "PULUMI_IGNORE_AMBIENT_PLUGINS": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DISABLE_REGISTRY_RESOLVE": "true",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }

    def within(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the environment without access to a real account, and with this one."""
        return {**{key: value for key, value in environment.items() if not key.startswith(("AWS_", "MOTO_"))}, **self.environment}

    def client(self, service: str, region: str = REGION) -> Any:
        """Return a boto3 client of this account."""
        session = boto3.Session(aws_access_key_id="standin", aws_secret_access_key="standin", region_name=region)
        return session.client(service, endpoint_url=self.endpoint)

    def reset(self) -> None:
        """Delete every resource of the account."""
        urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/moto-api/reset", method="POST"), timeout=30).close()


def install_plugin(pulumi_home: Path) -> None:
    """Install the stand-in where the engine searches for the aws provider. Never on a PATH: there it would hide the real one."""
    folder = pulumi_home / "plugins" / _PROVIDER
    folder.mkdir(parents=True)
    plugin = folder / "pulumi-resource-aws"
    plugin.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}/infra:{ROOT}/tests" exec "{sys.executable}" -u -m standins.aws "$@"\n')
    plugin.chmod(0o755)


@contextmanager
def serving(folder: Path) -> Iterator[AwsAccount]:
    """Yield an account for the duration of the context."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "MOTO_"))}
    environment["PYTHONPATH"] = f"{ROOT}/tests"
    install_plugin(folder)
    with (folder / "moto.log").open("w") as log:
        command = [sys.executable, "-u", "-m", "standins.moto_server"]
        server = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        assert port.isdigit(), (folder / "moto.log").read_text()
        yield AwsAccount(f"http://127.0.0.1:{port}", folder)
    finally:
        server.kill()
        server.wait()
