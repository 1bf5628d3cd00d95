"""What runs on a Kubernetes cluster beside our own objects: versions, where they come from, and whether they were seen at work."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import yaml
from pydantic import Field

from rackwright.model.base import Part

_FILE: Final = Path(__file__).with_suffix(".yml")
NEVER: Final = "never"


class Addon(Part):
    """One of them."""

    version: str
    source: str
    read: str = Field(pattern=r"^\d{4}-\d{2}$")
    run: str
    """Where it was seen at work."""


@cache
def addons() -> dict[str, Addon]:
    """All of them, by name."""
    return {name: Addon.model_validate(row) for name, row in yaml.safe_load(_FILE.read_text(encoding="utf-8")).items()}
