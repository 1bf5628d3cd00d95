"""Facts: each row has its source and date, and rows agree with each other."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from support.rows import each_row

from rackwright import catalog

FILES = sorted(path.stem for path in Path(catalog.__file__).parent.glob("*.csv"))


@each_row("name", FILES)
def test_every_row_has_its_source_and_its_date(name: str) -> None:
    """A figure without a source is not used."""
    rows = catalog.rows(name)
    assert rows
    for row in rows:
        assert None not in row, f"too many columns: {row}"
        assert row["source"]
        assert date.fromisoformat(row["date"]) <= date.today()


@each_row("name", FILES)
def test_the_first_column_names_a_row_once(name: str) -> None:
    """The second would silently win."""
    first = [next(iter(row.values())) for row in catalog.rows(name)]
    assert len(set(first)) == len(first)


def test_the_default_driver_knows_every_gpu() -> None:
    """A stack that names a GPU gets a driver for it."""
    driver = catalog.version_key(catalog.software("nvidia-driver"))
    for gpu in catalog.gpus().values():
        assert gpu.driver_minimum is None or catalog.version_key(gpu.driver_minimum) <= driver, gpu


def test_the_gpus_of_the_founding_documents_are_there() -> None:
    """With what nvidia-smi says about them."""
    known = catalog.gpus()
    assert {"h100", "h200", "a100", "b200"} <= set(known)
    assert (known["h100"].product, known["h100"].memory_mib) == ("NVIDIA H100 80GB HBM3", 81559)
