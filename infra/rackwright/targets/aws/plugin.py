"""The aws plugin of Pulumi: the one thing this target needs that `make` does not bring."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from rackwright.targets import plugins


def require_installed(environ: Mapping[str, str]) -> None:
    """Refuse, with the command that installs it, where the engine would say no more than that it is missing."""
    if not plugins.is_there("aws", environ):
        raise pulumi.RunError(
            f"the aws plugin {plugins.wanted('aws')} is not installed: target aws is built by it\n"
            f"  run `{plugins.command('aws')}`; it is downloaded from Pulumi (docs/targets/aws.md)"
        )
