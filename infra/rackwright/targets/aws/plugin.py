"""The aws plugin of Pulumi: the one thing this target needs that `make` does not bring."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pulumi


def demand(environ: Mapping[str, str]) -> None:
    """Refuse, with the command that installs it, where the engine would say no more than that it is missing."""
    wanted = version("pulumi-aws")
    folder = Path(environ.get("PULUMI_HOME") or Path.home() / ".pulumi") / "plugins" / f"resource-aws-v{wanted}"
    may_fetch = environ.get("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION") not in {"true", "1"}
    if not folder.is_dir() and not may_fetch:
        raise pulumi.RunError(
            f"the aws plugin {wanted} is not installed: target aws is built by it\n"
            f"  run `pulumi plugin install resource aws {wanted}`; it is downloaded from Pulumi (docs/targets/aws.md)"
        )
