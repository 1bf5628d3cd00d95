"""The table of CIS items is complete and valid; wrong rows are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from cis.items import read_table

from rackwright.catalog.checks import checks
from rackwright.errors import InputError
from rackwright.yaml_loader import load_yaml

SECTIONS = {"1.1": 21, "1.2": 29, "1.3": 7, "1.4": 2, "2": 7, "3.1": 3, "3.2": 2, "4.1": 10, "4.2": 13, "4.3": 1, "5.1": 13, "5.2": 13,
            "5.3": 2, "5.4": 2, "5.5": 1, "5.7": 4}  # fmt: skip
"""Number of items by section: kube-bench, cfg/cis-1.10."""
GOOD = """
benchmark: "1.0"
items:
  - {number: "1.1.1", where: control_plane, files: /a, mode: "600"}
  - {number: "1.2.1", where: all_nodes, of: kubelet, arguments: b c, is: "x", deviates: Because.}
by_checks: [{numbers: "2.1", checks: [a.b]}]
not_evaluated: [{numbers: "3.1", reason: No value.}]
"""


def test_every_item_of_the_benchmark_is_listed() -> None:
    table = read_table()
    listed = {item.number for item in table.items} | set(table.by_checks) | set(table.not_evaluated)
    assert listed == {f"{section}.{number}" for section, count in SECTIONS.items() for number in range(1, count + 1)}


def test_checks_that_decide_items_exist() -> None:
    keys = {key for keys in read_table().by_checks.values() for key in keys}
    assert keys <= set(checks())


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ('numbers: "2.1"', 'numbers: "1.1.1"', "1.1.1: listed twice"),
        ('numbers: "2.1"', "numbers: 2.1", "quoted string"),
        ('number: "1.1.1"', "number: 1.1", "quoted string"),
        (', mode: "600"', "", "neither mode nor owner"),
        (', is: "x"', "", "0 conditions"),
        (', is: "x"', ', is: "x", has: y', "2 conditions"),
        (', is: "x"', ', is: "x", hass: y', "unknown keys hass"),
        ("where: all_nodes", "where: moon", "moon"),
        ("by_checks", "by_check", "unknown or missing keys"),
    ],
)
def test_wrong_row_is_named(tmp_path: Path, old: str, new: str, cause: str) -> None:
    assert old in GOOD and load_yaml(GOOD.replace(old, new))
    file = tmp_path / "items.yml"
    file.write_text(GOOD.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=cause):
        read_table(file)
