"""The table of CIS items (items.yml): how each is decided, and why a deviation is accepted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rackwright.errors import InputError
from rackwright.yaml_loader import load_yaml

TABLE: Final = Path(__file__).with_name("items.yml")
CONTROL_PLANE: Final = "kube_control_plane"
ALL_NODES: Final = "kubernetes"
_NUMBER: Final = re.compile(r"\d+(\.\d+){1,2}")
_CONDITIONS: Final = ("is", "has", "lacks", "at_least", "is_set", "is_unset")
_PARTS: Final = {"benchmark", "items", "by_checks", "not_evaluated"}


@dataclass(frozen=True)
class FileRule:
    """Every file that matches a pattern has at most these mode bits and this owner."""

    pattern: str
    mode: int | None = None
    owner: str = ""
    may_be_absent: bool = False


@dataclass(frozen=True)
class ValueRule:
    """An argument of a daemon, or a setting of the kubelet's configuration, has a value.

    `argument` of `daemon`, or `setting` (keys separated by dots), and exactly one condition:
    `is` (equal), `has` (in a list separated by commas), `lacks`, `at_least` (number), `is_set`, `is_unset`.
    `absent`: whether the item holds without a value.
    """

    daemon: str
    names: Sequence[str]
    condition: str
    operand: str = ""
    absent: bool = False
    setting: bool = False


@dataclass(frozen=True)
class Item:
    """An item: its number, the nodes that it concerns, its rule, and why a deviation is accepted, if one is."""

    number: str
    group: str
    rule: FileRule | ValueRule
    deviates: str = ""


@dataclass(frozen=True)
class Table:
    """The table; `by_checks` maps items to keys of the product's own checks, `not_evaluated` to reasons."""

    benchmark: str
    items: Sequence[Item]
    by_checks: Mapping[str, Sequence[str]]
    not_evaluated: Mapping[str, str]


def read_table(file: Path = TABLE) -> Table:
    """Read the table. Raises InputError for a row that cannot be read and for a number that is listed twice."""
    rows = load_yaml(file.read_text(encoding="utf-8"))
    try:
        if set(rows) != _PARTS:
            raise ValueError(f"unknown or missing keys (expected {', '.join(sorted(_PARTS))})")
        items = [_item(row) for row in rows["items"]]
        by_checks = {number: row["checks"] for row in rows["by_checks"] for number in _numbers(row)}
        not_evaluated = {number: row["reason"] for row in rows["not_evaluated"] for number in _numbers(row)}
        _reject_repeated(rows)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(str(error), path=str(file), hint="Correct the row; docs/adr/0032-cis-items.md describes the table.") from None
    return Table(rows["benchmark"], items, by_checks, not_evaluated)


def _reject_repeated(rows: Mapping[str, Any]) -> None:
    numbers = [row["number"] for row in rows["items"]]
    numbers += [number for part in ("by_checks", "not_evaluated") for row in rows[part] for number in _numbers(row)]
    if repeated := sorted({number for number in numbers if numbers.count(number) > 1}):
        raise ValueError(f"{', '.join(repeated)}: listed twice")


def _numbers(row: Mapping[str, Any]) -> list[str]:
    """Return the numbers of a row: a string, because YAML reads 1.10 as the number 1.1."""
    value = row["numbers"]
    if not isinstance(value, str) or not all(_NUMBER.fullmatch(number) for number in value.split()):
        raise ValueError(f'numbers: {value!r} (expected a quoted string such as "5.1.10 5.1.11")')
    return value.split()


def _item(row: Mapping[str, Any]) -> Item:
    number = row["number"]
    if not isinstance(number, str) or not _NUMBER.fullmatch(number):
        raise ValueError(f'number: {number!r} (expected a quoted string such as "2.7")')
    known = {"number", "where", "deviates", "files", "mode", "owner", "may_be_absent", "of", "arguments", "setting", *_CONDITIONS, "absent"}
    if unknown := set(row) - known:
        raise ValueError(f"{number}: unknown keys {', '.join(sorted(unknown))}")
    group = {"control_plane": CONTROL_PLANE, "all_nodes": ALL_NODES}[row["where"]]
    return Item(number, group, _file_rule(row) if "files" in row else _value_rule(row), row.get("deviates", ""))


def _file_rule(row: Mapping[str, Any]) -> FileRule:
    mode = int(row["mode"], 8) if "mode" in row else None
    if mode is None and "owner" not in row:
        raise ValueError(f"{row['number']}: neither mode nor owner")
    return FileRule(row["files"], mode, row.get("owner", ""), bool(row.get("may_be_absent")))


def _value_rule(row: Mapping[str, Any]) -> ValueRule:
    conditions = [name for name in _CONDITIONS if name in row]
    if len(conditions) != 1:
        raise ValueError(f"{row['number']}: {len(conditions)} conditions (expected one of {', '.join(_CONDITIONS)})")
    names = [row["setting"]] if "setting" in row else row["arguments"].split()
    absent = conditions == ["is_unset"] or {"holds": True, "fails": False}[row.get("absent", "fails")]
    return ValueRule(row["of"], names, conditions[0], str(row[conditions[0]]), absent, "setting" in row)
