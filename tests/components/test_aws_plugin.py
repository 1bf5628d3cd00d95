"""Messages to a user without the aws plugin."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pulumi
import pytest

from rackwright.targets.aws import plugin


def test_missing_aws_plugin_names_install_command(tmp_path: Path) -> None:
    with pytest.raises(pulumi.RunError, match=f"pulumi plugin install resource aws {version('pulumi-aws')}"):
        plugin.require_installed({"PULUMI_HOME": str(tmp_path), "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true"})


def test_available_aws_plugin_prints_nothing(tmp_path: Path) -> None:
    plugin.require_installed({"PULUMI_HOME": str(tmp_path)})
    (tmp_path / "plugins" / f"resource-aws-v{version('pulumi-aws')}").mkdir(parents=True)
    plugin.require_installed({"PULUMI_HOME": str(tmp_path), "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true"})
