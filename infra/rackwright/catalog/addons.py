"""Software on a Kubernetes cluster in addition to its own objects: versions, sources, and where each one ran."""

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


class InstalledAddon(ConfigModel):
    """Build and installation of an add-on that the product installs."""

    digest: str = Field(pattern=r"^[0-9a-f]{12}$")
    """Digest of the product's own files for the add-on, in tools/kubernetes/addons."""
    namespace: str
    deployment: str | None = None
    daemon_set: str | None = None
    """The objects that run it, on the control plane and on every node: one of the two, or both."""
    metrics_deployment: str | None = None
    """A second Deployment on the control plane, which serves metrics to autoscalers."""


class Addon(ConfigModel):
    """An add-on."""

    version: str
    source: str
    read: str = Field(pattern=r"^\d{4}-\d{2}$")
    run: str
    """Where it ran; `never` if it has not been run."""
    installed: InstalledAddon | None = None
    """None if only users install it."""


def image(name: str) -> str:
    """Return the image of an add-on that the product installs; the add-on's part of the bundle contains it."""
    one = addons()[name]
    assert one.installed is not None, f"addons.yml does not say how {name} is installed"
    return f"{OWN}/{name}:{one.version}-{one.installed.digest}"


@cache
def addons() -> dict[str, Addon]:
    """Return all add-ons by name."""
    return {name: Addon.model_validate(row) for name, row in load_yaml(_FILE.read_text(encoding="utf-8")).items()}
