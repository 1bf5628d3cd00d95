"""Regions and zones of instance types, from moto's copy of DescribeInstanceTypeOfferings."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import moto

_OFFERINGS: Final = Path(moto.__file__).parent / "ec2" / "resources" / "instance_type_offerings"


@cache
def _sold(kind: str) -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Return by region: the instance types of each `region` or `availability-zone` in it."""
    found: dict[str, dict[str, set[str]]] = {}
    for path in sorted((_OFFERINGS / kind).glob("*.json.gz")):
        places = found.setdefault(path.name.removesuffix(".json.gz"), {})
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for offering in json.load(file):
                places.setdefault(offering["Location"], set()).add(offering["InstanceType"])
    return {region: {place: frozenset(types) for place, types in places.items()} for region, places in found.items()}


def known_regions() -> frozenset[str]:
    """Return all regions whose offerings are known."""
    return frozenset(_sold("region"))


def sold_in(name: str) -> str:
    """Return the regions that sell an instance type, in order."""
    return " ".join(sorted(region for region, places in _sold("region").items() if name in places.get(region, ())))


def zones(region: str) -> str:
    """Return the zones that sell any instance type, by name and in order. Raise KeyError for an unknown region."""
    return " ".join(sorted(_sold("availability-zone")[region]))
