"""The table of expected results (expectations.yml): which tests are selected, what each must give, and why the others are not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rackwright.errors import InputError
from rackwright.yaml_loader import load_yaml
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
    rows = load_yaml(file.read_text(encoding="utf-8"))
    if not isinstance(rows, dict) or set(rows) - _KEYS or not {"slurm", "selected"} <= set(rows):
        raise InputError(f"unknown or missing keys (expected {', '.join(sorted(_KEYS))})", path=str(file))
    try:
        pairs = [pair for row in rows["selected"] for pair in _selected(row)]
        not_selected = {test: _text(row, "reason") for row in rows.get("not_selected", ()) for test in _tests(row["tests"])}
        waiting = _tests(rows["not_run_yet"]) if rows.get("not_run_yet") else []
        limits = {str(test): int(seconds) for test, seconds in rows.get("limits", {}).items()}
        selected = dict(pairs)
        _reject_repeated([*(test for test, _ in pairs), *_not_selected(rows), *waiting])
        _reject_unselected(limits, selected)
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(str(error), path=str(file), hint="Correct the row; tools/README.md describes the table.") from None
    return Table(str(rows["slurm"]), dict(rows.get("recorded_with", {})), selected, not_selected, waiting, limits)


def _selected(row: Mapping[str, Any]) -> Iterable[tuple[str, Expectation]]:
    """Yield the tests of a row. A pass has only numbers; a skip and a failure have numbers by what the tests must log."""
    result = Result(row["expect"])
    if result is Result.UNKNOWN:
        raise ValueError("unknown is no expectation (expected passed, skipped or failed)")
    if result is Result.PASSED:
        yield from ((test, Expectation(result)) for test in _tests(row["tests"]))
        return
    reason, by_message = _text(row, "reason"), row["tests"]
    if not isinstance(by_message, dict) or not all(isinstance(says, str) and says.strip() for says in by_message):
        raise ValueError(f"{reason}: tests: {by_message!r} (expected a mapping of what the tests log to their numbers)")
    for says, tests in by_message.items():
        yield from ((test, Expectation(result, says, reason)) for test in _tests(tests))


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{row.get('tests')}: {key} is missing")
    return value


def _tests(value: object) -> list[str]:
    """Return numbers from a string; a string, because YAML reads 1.10 as the number 1.1."""
    if not isinstance(value, str) or not all(_NUMBER.fullmatch(test) for test in value.split()):
        raise ValueError(f'tests: {value!r} (expected a quoted string of numbers such as "1.10 2.3")')
    return value.split()


def _not_selected(rows: Mapping[str, Any]) -> list[str]:
    return [test for row in rows.get("not_selected", ()) for test in _tests(row["tests"])]


def _reject_repeated(tests: Sequence[str]) -> None:
    seen: set[str] = set()
    for test in tests:
        if test in seen:
            raise ValueError(f"{test}: listed twice")
        seen.add(test)


def _reject_unselected(limits: Mapping[str, int], selected: Mapping[str, Expectation]) -> None:
    if unknown := sorted(set(limits) - set(selected)):
        raise ValueError(f"limits: {', '.join(unknown)}: not selected")
