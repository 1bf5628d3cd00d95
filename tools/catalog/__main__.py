"""`make catalog`: writes the shape columns of instances.csv again; names and prices stay as they are.

A new type is a line with its name and price columns; the rest is filled in. A row's date changes only where its shape did.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Final

from catalog.shapes import NoShape, shape, source

FILE: Final = Path(__file__).parents[2] / "infra" / "rackwright" / "catalog" / "instances.csv"


def renewed(row: dict[str, str], today: date) -> dict[str, str]:
    """The row with the shape that the library knows."""
    found = shape(row["name"])
    changed = any(row.get(column) != value for column, value in found.items())
    return row | found | ({"source": source(), "date": today.isoformat()} if changed else {})


def write(rows: Iterable[dict[str, str]], columns: list[str]) -> None:
    """Replaces the file."""
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> int:
    """All rows or none; says which type cannot be said in a row."""
    with FILE.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        old, columns = list(reader), list(reader.fieldnames or [])
    try:
        new = [renewed(row, date.today()) for row in old]
    except NoShape as problem:
        print(problem, file=sys.stderr)
        return 1
    write(new, columns)
    print(f"{sum(before != after for before, after in zip(old, new, strict=True))} of {len(new)} rows changed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
