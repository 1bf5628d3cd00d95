"""The aws plugin of Pulumi: the only requirement of this target that `make` does not install."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from rackwright.targets import plugins


def require_installed(environ: Mapping[str, str]) -> None:
    """Raise an error with the command that installs the plugin, where the engine would only report it as missing."""
    if not plugins.is_installed("aws", environ):
        raise pulumi.RunError(
            f"the aws plugin {plugins.required_version('aws')} is not installed: target aws is built by it\n"
            f"  run `{plugins.command('aws')}`; it is downloaded from Pulumi (docs/targets/aws.md)"
        )
