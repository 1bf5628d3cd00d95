"""AWS regions: their zones and their types of FSx for Lustre."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from rackwright.catalog import rows


@dataclass(frozen=True, slots=True)
class Region:
    """A region as of the date of its row; a new region may be missing."""

    name: str
    zones: tuple[str, ...]
    """Zones by name (`us-east-1a`). The visible zones, and the building of a letter, differ between accounts."""
    fsx_lustre: bool
    fsx_persistent_2: bool
    """Whether the region offers PERSISTENT_2 on SSD."""
    source: str
    date: datetime.date


@cache
def regions() -> Mapping[str, Region]:
    """Return all known regions by name."""
    return {
        row["region"]: Region(
            name=row["region"],
            zones=tuple(row["zones"].split()),
            fsx_lustre=row["fsx_lustre"] == "yes",
            fsx_persistent_2=row["fsx_persistent_2"] == "yes",
            source=row["source"],
            date=datetime.date.fromisoformat(row["date"]),
        )
        for row in rows("regions")
    }
