"""The table of expectations is complete, without repetitions, and each deviation from a pass is explained."""

from __future__ import annotations

from pathlib import Path

import pytest
from slurm_suite.expectations import DEFAULT_LIMIT, read_table
from slurm_suite.suite_log import Result

from rackwright.errors import InputError

GOOD = """
slurm: 1.2.3
recorded_with: {TaskPlugin: task/none}
selected:
  - {expect: passed, tests: "1.1 1.10"}
  - {expect: skipped, reason: The lab has no lua., tests: {needs lua: "2.1"}}
not_selected:
  - {reason: Needs headers., tests: "3.1 3.2"}
not_run_yet: "9.9"
limits: {"1.1": 40}
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "table.yml"
    file.write_text(text, encoding="utf-8")
    return file


def test_table_is_read(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, GOOD))
    assert list(table.selected) == ["1.1", "1.10", "2.1"]
    assert table.selected["2.1"].result is Result.SKIPPED and table.selected["2.1"].says == "needs lua"
    assert table.not_selected == {"3.1": "Needs headers.", "3.2": "Needs headers."}
    assert table.not_run_yet == ["9.9"]
    assert (table.limit("1.1"), table.limit("1.10")) == (40, DEFAULT_LIMIT)


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ('tests: "1.1 1.10"', "tests: 1.10", "quoted string"),
        ('{needs lua: "2.1"}', '{needs lua: "1.1"}', "1.1: listed twice"),
        ('{needs lua: "2.1"}', "{needs lua: 2.1}", "quoted string"),
        ('{needs lua: "2.1"}', '{"": "2.1"}', "expected a mapping"),
        ('not_run_yet: "9.9"', 'not_run_yet: "3.2"', "3.2: listed twice"),
        ('{needs lua: "2.1"}', '"2.1"', "expected a mapping"),
        ("reason: The lab has no lua., ", "", "reason is missing"),
        ("{reason: Needs headers., ", "{", "reason is missing"),
        ("expect: passed", "expect: unknown", "no expectation"),
        ("expect: passed", "expect: good", "good"),
        ("expect: passed", "expect: failed", "reason is missing"),
        ('limits: {"1.1": 40}', 'limits: {"3.1": 40}', "3.1: not selected"),
        ("not_run_yet", "never", "unknown or missing keys"),
        ("slurm: 1.2.3", "", "unknown or missing keys"),
    ],
)
def test_wrong_row_is_named(tmp_path: Path, old: str, new: str, cause: str) -> None:
    assert old in GOOD
    with pytest.raises(InputError, match=cause):
        read_table(write(tmp_path, GOOD.replace(old, new)))


def test_tracked_table_is_valid() -> None:
    table = read_table()
    assert len(table.selected) > 5
    assert set(table.recorded_with) >= {"TaskPlugin", "SelectType"}
