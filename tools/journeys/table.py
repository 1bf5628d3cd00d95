"""The journeys that are counted: journeys.yml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

_FILE: Final = Path(__file__).with_name("journeys.yml")


@dataclass(frozen=True)
class Route:
    """A value and the function at which it enters."""

    name: str
    value: str
    start: tuple[str, str]
    """Module and function."""
    most: int | None = None
    via: Mapping[str, Sequence[str]] = field(default_factory=dict)


def read_routes() -> list[Route]:
    """Return the journeys in the order of the file."""
    routes = []
    for row in yaml.safe_load(_FILE.read_text(encoding="utf-8")):
        module, function = row["from"].split(":")
        routes.append(Route(row["name"], row["value"], (module, function), row.get("most"), row.get("via", {})))
    return routes
