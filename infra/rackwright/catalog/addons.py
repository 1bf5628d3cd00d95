"""What runs on a Kubernetes cluster beside our own objects: versions, where they come from, and whether they were seen at work."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from pydantic import Field

from rackwright.catalog.kubernetes import OWN
from rackwright.model.base import ConfigModel
from rackwright.yaml_loader import load_yaml

_FILE: Final = Path(__file__).with_suffix(".yml")
NEVER: Final = "never"


class Installed(ConfigModel):
    """How one that we install ourselves is built and found."""

    digest: str = Field(pattern=r"^[0-9a-f]{12}$")
    """Of what is ours of it, in tools/kubernetes/addons."""
    namespace: str
    deployment: str


class Addon(ConfigModel):
    """One of them."""

    version: str
    source: str
    read: str = Field(pattern=r"^\d{4}-\d{2}$")
    run: str
    """Where it was seen at work."""
    installed: Installed | None = None
    """None where nobody but a user installs it."""


def image(name: str) -> str:
    """The image of one that we install, which its part of the bundle has."""
    one = addons()[name]
    assert one.installed is not None, f"addons.yml does not say how {name} is installed"
    return f"{OWN}/{name}:{one.version}-{one.installed.digest}"


@cache
def addons() -> dict[str, Addon]:
    """All of them, by name."""
    return {name: Addon.model_validate(row) for name, row in load_yaml(_FILE.read_text(encoding="utf-8")).items()}
