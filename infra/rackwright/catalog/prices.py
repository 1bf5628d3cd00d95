"""List prices other than those of instances. Without a source there is no price, and a total must say that it is incomplete."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

from rackwright.catalog import rows
from rackwright.catalog.fsx import DeploymentType, DriveCache, StorageType

HOURS_PER_MONTH: Final = 730
"""Hours of a month in AWS's price calculator."""


class Unit(StrEnum):
    """Unit of a price. GB as AWS bills it: a GiB of storage counts as one."""

    HOUR = "hour"
    GB = "gb"
    GB_MONTH = "gb-month"
    IOPS_MONTH = "iops-month"
    MBPS_MONTH = "mbps-month"


@dataclass(frozen=True, slots=True)
class UnitPrice:
    """A list price, or the reason why there is none."""

    item: str
    unit: Unit
    usd: float | None
    region: str
    source: str
    """With `usd` None: the reason why no price is on record."""
    date: datetime.date

    @property
    def usd_per_hour(self) -> float | None:
        """Return the price of one unit per hour; None without a price, or if it is for an amount and not for time."""
        if self.usd is None or self.unit is Unit.GB:
            return None
        return self.usd if self.unit is Unit.HOUR else self.usd / HOURS_PER_MONTH


@cache
def prices() -> Mapping[str, UnitPrice]:
    """Return all prices by item, us-east-1."""
    return {row["item"]: _price(row) for row in rows("prices")}


def lustre_storage(
    deployment: DeploymentType,
    storage: StorageType = StorageType.SSD,
    throughput: int | None = None,
    drive_cache: DriveCache = DriveCache.NONE,
) -> UnitPrice:
    """Return the price of a GB of FSx for Lustre. Raise KeyError for a combination that FSx does not offer."""
    if storage is StorageType.INTELLIGENT_TIERING:
        return prices()["fsx-tiering-storage"]
    name = deployment.value.lower().replace("_", "-")
    parts = [
        "fsx",
        name,
        storage.value.lower(),
        *([str(throughput)] if throughput else []),
        *(["cached"] if drive_cache is DriveCache.READ else []),
    ]
    return prices()["-".join(parts)]


def _price(row: Mapping[str, str]) -> UnitPrice:
    return UnitPrice(
        item=row["item"],
        unit=Unit(row["unit"]),
        usd=float(row["usd"]) if row["usd"] else None,
        region=row["region"],
        source=row["source"],
        date=datetime.date.fromisoformat(row["date"]),
    )
