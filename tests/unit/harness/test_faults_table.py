"""Every check has a fault, and every fault a check."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rackwright.catalog.checks import checks

FOLDER = Path(__file__).parents[2] / "faults"
ROWS = {key: row for file in sorted(FOLDER.glob("*.yml")) for key, row in yaml.safe_load(file.read_text(encoding="utf-8")).items()}
KEYS = {"where", "red", "first", "everywhere", "apply", "undo", "also"}


def test_every_check_has_one():
    assert sorted(ROWS) == sorted(checks())


@pytest.mark.parametrize("key", ROWS)
def test_a_row_is_complete_and_spelt_right(key):
    row = ROWS[key]
    assert set(row) <= KEYS
    assert row["apply"].strip() and row["undo"].strip()
    assert row.get("red", "same") in {"same", "last", "all"}


@pytest.mark.parametrize("key", [key for key, row in ROWS.items() if row.get("also")])
def test_what_else_turns_red_is_a_check_and_has_a_reason(key):
    assert set(ROWS[key]["also"]) <= set(checks())
    assert all(why.strip() for why in ROWS[key]["also"].values())


def test_no_two_checks_have_the_same_fault():
    faults = [(row["apply"], row.get("where", checks()[key].group)) for key, row in ROWS.items()]
    assert {fault for fault in faults if faults.count(fault) > 1} <= {("hostname somebody-else", "role_worker")}
