"""`make update-catalog`: writes again what a library knows of the catalogue's rows: shapes of instance types, zones of regions.

A new type or region is a line with its name (and price, and what FSx offers there); the rest is filled in.
The date of a row of instances.csv changes only where the row did.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Final

from catalog.offerings import sold_in, zones
from catalog.shapes import NoShape, shape, source

CATALOG: Final = Path(__file__).parents[2] / "infra" / "rackwright" / "catalog"

Row = dict[str, str]


def instance_row(row: Row) -> Row:
    """The row with its shape and where it is sold. Raises NoShape."""
    found = shape(row["name"]) | {"regions": sold_in(row["name"])}
    changed = any(row.get(column) != value for column, value in found.items())
    return (
        row
        | found
        | (
            {"source": source("DescribeInstanceTypes and DescribeInstanceTypeOfferings"), "date": date.today().isoformat()}
            if changed
            else {}
        )
    )


def region_row(row: Row) -> Row:
    """The row with the zones that the library knows."""
    found = zones(row["region"])
    return row | ({"zones": found, "zones_source": source("DescribeInstanceTypeOfferings")} if found != row["zones"] else {})


def renew(name: str, renewed: Callable[[Row], Row]) -> str:
    """Writes a file again, all rows or none, and says what changed."""
    path = CATALOG / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        old, columns = list(reader), list(reader.fieldnames or [])
    new = [renewed(row) for row in old]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(new)
    return f"{path.name}: {sum(before != after for before, after in zip(old, new, strict=True))} of {len(new)} rows changed"


def main() -> int:
    """1 where a row cannot be told, with the reason."""
    try:
        print(renew("instances", instance_row))
        print(renew("regions", region_row))
    except (NoShape, KeyError) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
