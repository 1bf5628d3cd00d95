"""AWS regions: their zones and which FSx for Lustre they offer."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from rackwright.catalog import rows


@dataclass(frozen=True, slots=True)
class Region:
    """A region as it was at the date of its row; a new one may be missing."""

    name: str
    zones: tuple[str, ...]
    """Zones by name (`us-east-1a`). Which of them an account sees, and which building a letter means, differs from account to account."""
    fsx_lustre: bool
    fsx_persistent_2: bool
    """Whether PERSISTENT_2 on SSD is sold there."""
    source: str
    date: datetime.date


@cache
def regions() -> Mapping[str, Region]:
    """All known regions by name."""
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
