"""What a user reads who has no aws plugin yet."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pulumi
import pytest

from rackwright.targets.aws import plugin


def test_without_the_plugin_the_command_that_installs_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(pulumi.RunError, match=f"pulumi plugin install resource aws {version('pulumi-aws')}"):
        plugin.require_installed({"PULUMI_HOME": str(tmp_path), "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true"})


def test_with_it_or_where_the_engine_fetches_it_there_is_nothing_to_say(tmp_path: Path) -> None:
    plugin.require_installed({"PULUMI_HOME": str(tmp_path)})
    (tmp_path / "plugins" / f"resource-aws-v{version('pulumi-aws')}").mkdir(parents=True)
    plugin.require_installed({"PULUMI_HOME": str(tmp_path), "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true"})
