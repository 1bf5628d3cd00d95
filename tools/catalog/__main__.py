"""`make update-catalog`: update the columns of the catalogue that a library provides: shapes of instance types, zones of regions.

For a new type or region, add a line with its name (and its price, or its FSx deployment types); the command fills in the rest.
The date of a row of instances.csv changes only with the row.
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
    """Return the row with its shape and its regions. Raises NoShape."""
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
    """Return the row with the library's zones."""
    found = zones(row["region"])
    return row | ({"zones": found, "zones_source": source("DescribeInstanceTypeOfferings")} if found != row["zones"] else {})


def renew(name: str, renewed: Callable[[Row], Row]) -> str:
    """Write a file with updated rows, all or none, and return the number of changes as text."""
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
    """Update both files. Exit code: 1, with the reason, if a row cannot be determined."""
    try:
        print(renew("instances", instance_row))
        print(renew("regions", region_row))
    except (NoShape, KeyError) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
