"""The table of expected results (expectations.yml): which tests are selected, what each must give, and why the others are not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from rackwright.errors import InputError
from slurm_suite.suite_log import Result

TABLE: Final = Path(__file__).with_name("expectations.yml")
DEFAULT_LIMIT: Final = 300
"""Seconds for one test on an unloaded machine. Chosen: the suite's own waits end after 120 s, and a test has a few of them."""
_NUMBER: Final = re.compile(r"\d+\.\d+")
_KEYS: Final = {"slurm", "recorded_with", "selected", "not_selected", "not_run_yet", "limits"}


@dataclass(frozen=True)
class Expectation:
    """What a selected test must give; `says` is a part of the reason that the test must log."""

    result: Result
    says: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Table:
    """The table: `not_selected` maps a test to the reason; `not_run_yet` lists tests without a recorded result."""

    slurm: str
    recorded_with: Mapping[str, str]
    selected: Mapping[str, Expectation]
    not_selected: Mapping[str, str]
    not_run_yet: Sequence[str]
    limits: Mapping[str, int]

    def limit(self, test: str) -> int:
        """Return the seconds that a test may take on an unloaded machine."""
        return self.limits.get(test, DEFAULT_LIMIT)


def read_table(file: Path = TABLE) -> Table:
    """Read the table. Raises InputError for an unknown key, a test without a reason, and a test that is listed twice."""
    rows = yaml.safe_load(file.read_text(encoding="utf-8"))
    if not isinstance(rows, dict) or set(rows) - _KEYS or not {"slurm", "selected"} <= set(rows):
        raise InputError(f"unknown or missing keys (expected {', '.join(sorted(_KEYS))})", path=str(file))
    try:
        selected = {test: expectation for row in rows["selected"] for test, expectation in _selected(row)}
        not_selected = {test: _text(row, "reason") for row in rows.get("not_selected", ()) for test in _tests(row)}
        waiting = _tests({"tests": rows["not_run_yet"]}) if rows.get("not_run_yet") else []
        limits = {str(test): int(seconds) for test, seconds in rows.get("limits", {}).items()}
        _reject_repeated(rows, waiting)
        _reject_unselected(limits, selected)
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(str(error), path=str(file), hint="Correct the row; tools/README.md describes the table.") from None
    return Table(str(rows["slurm"]), dict(rows.get("recorded_with", {})), selected, not_selected, waiting, limits)


def _selected(row: Mapping[str, Any]) -> Iterable[tuple[str, Expectation]]:
    result = Result(row["expect"])
    if result is Result.UNKNOWN:
        raise ValueError(f"{row['tests']}: unknown is no expectation (expected passed, skipped or failed)")
    explained = result is not Result.PASSED
    expectation = Expectation(result, _text(row, "says") if explained else "", _text(row, "reason") if explained else "")
    return [(test, expectation) for test in _tests(row)]


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{row.get('tests')}: {key} is missing")
    return value


def _tests(row: Mapping[str, Any]) -> list[str]:
    """Return the numbers of a row: a string, because YAML reads 1.10 as the number 1.1."""
    value = row["tests"]
    if not isinstance(value, str) or not all(_NUMBER.fullmatch(test) for test in value.split()):
        raise ValueError(f'tests: {value!r} (expected a quoted string of numbers such as "1.10 2.3")')
    return value.split()


def _reject_repeated(rows: Mapping[str, Any], waiting: Sequence[str]) -> None:
    listed = [test for part in ("selected", "not_selected") for row in rows.get(part, ()) for test in _tests(row)]
    seen: set[str] = set()
    for test in [*listed, *waiting]:
        if test in seen:
            raise ValueError(f"{test}: listed twice")
        seen.add(test)


def _reject_unselected(limits: Mapping[str, int], selected: Mapping[str, Expectation]) -> None:
    if unknown := sorted(set(limits) - set(selected)):
        raise ValueError(f"limits: {', '.join(unknown)}: not selected")
