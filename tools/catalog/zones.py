"""Which zones a region has, as moto's copy of DescribeInstanceTypeOfferings has it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Final

import moto

_OFFERINGS: Final = Path(moto.__file__).parent / "ec2" / "resources" / "instance_type_offerings" / "availability-zone"


def known_regions() -> frozenset[str]:
    """All regions whose zones can be told."""
    return frozenset(path.name.removesuffix(".json.gz") for path in _OFFERINGS.glob("*.json.gz"))


def zones(region: str) -> str:
    """Zones in which any instance type is sold, by name and in order. FileNotFoundError for an unknown region."""
    with gzip.open(_OFFERINGS / f"{region}.json.gz", "rt", encoding="utf-8") as file:
        offerings: list[dict[str, str]] = json.load(file)
    return " ".join(sorted({offering["Location"] for offering in offerings}))
