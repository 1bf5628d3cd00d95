"""Plugins of Pulumi that `make` does not install: whether the engine finds or downloads one."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path


def required_version(name: str) -> str:
    """Return the version that matches the installed Python package."""
    return version(f"pulumi-{name}")


def is_installed(name: str, environ: Mapping[str, str]) -> bool:
    """Return whether the plugin is installed, or the engine would install it on demand."""
    if environ.get("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION") not in {"true", "1"}:
        return True
    return (Path(environ.get("PULUMI_HOME") or Path.home() / ".pulumi") / "plugins" / f"resource-{name}-v{required_version(name)}").is_dir()


def command(name: str) -> str:
    """Return the command that installs the plugin."""
    return f"pulumi plugin install resource {name} {required_version(name)}"
