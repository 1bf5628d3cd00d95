"""Plugins of Pulumi that `make` does not bring: whether the engine finds one, or fetches it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path


def wanted(name: str) -> str:
    """The version that goes with the installed Python package."""
    return version(f"pulumi-{name}")


def is_there(name: str, environ: Mapping[str, str]) -> bool:
    """Whether it is installed, or would be on demand."""
    if environ.get("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION") not in {"true", "1"}:
        return True
    return (Path(environ.get("PULUMI_HOME") or Path.home() / ".pulumi") / "plugins" / f"resource-{name}-v{wanted(name)}").is_dir()


def command(name: str) -> str:
    """What installs it."""
    return f"pulumi plugin install resource {name} {wanted(name)}"
