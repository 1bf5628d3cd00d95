"""A table of cases in one test, which reports each row that fails; for tests that call a function and need no fixture of their own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

_PARAMETERS: Final = type(pytest.param())
"""The type of `pytest.param`, a tuple, which pytest has under a private name."""


@dataclass(frozen=True)
class Row:
    """The arguments of one row, and the name by which it is reported."""

    id: str
    arguments: dict[str, Any]


def each_row(
    names: str | Sequence[str], values: Iterable[Any], ids: Iterable[str] | Callable[[Any], str] | None = None
) -> Callable[..., Any]:
    """Run a test for each row of a table; `names`, `values` and `ids` are those of `pytest.mark.parametrize`.

    A parametrised case is set up, run, torn down and reported by itself, and is collected in each worker of xdist. A row is a call.

    - All rows run; the test fails with the errors of all rows that failed. Each row is named by its id and its number.
    - Fixtures are made once and shared by the rows. Use `parametrize` where a row changes what a fixture returns.
    - A row that skips fails, for the rows after it would not run. A row has no marks.
    - Decorators stack: the test runs for each combination. On a class they apply to each of its tests.
    """
    table = _table([name.strip() for name in names.split(",")] if isinstance(names, str) else list(names), list(values), ids)

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        if isinstance(function, type):
            for name, method in list(vars(function).items()):
                if name.startswith("test_"):
                    setattr(function, name, decorate(method))
            return function
        inner: list[Row] = getattr(function, "rows", [Row("", {})])
        combined = [Row("-".join(filter(None, (row.id, each.id))), {**row.arguments, **each.arguments}) for each in table for row in inner]
        return _test_of(getattr(function, "of_row", function), combined, function)

    return decorate


def _table(names: list[str], values: list[Any], ids: Iterable[str] | Callable[[Any], str] | None) -> list[Row]:
    """Return the rows. Raise ValueError for a table without rows, with a row of another length than its names, or with a mark."""
    if not values:
        raise ValueError(f"the table of {', '.join(names)} has no rows")
    given = [None] * len(values) if ids is None or callable(ids) else list(ids)
    table = []
    for number, (value, own) in enumerate(zip(values, given, strict=True)):
        cells, name = (value,) if len(names) == 1 else tuple(value), own
        if isinstance(value, _PARAMETERS):
            cells, name = value.values, value.id or own
            if value.marks:
                raise ValueError(f"row {number} has marks: {value.marks}")
        words = name or "-".join(
            (ids(cell) if callable(ids) else None) or _word(column, cell) for column, cell in zip(names, cells, strict=True)
        )
        table.append(Row(f"{words} (row {number})", dict(zip(names, cells, strict=True))))
    return table


def _word(name: str, cell: Any) -> str:
    """Return a cell as text, or the name of its column where the text would be long."""
    text = getattr(cell, "__name__", None) or (repr(cell) if isinstance(cell, str | int | float | bool | bytes | None) else name)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _test_of(function: Callable[..., None], table: list[Row], decorated: Callable[..., None]) -> Callable[..., None]:
    """Return a test that calls the function for each row. pytest reads its signature: what no row gives is a fixture."""
    columns = table[0].arguments

    @functools.wraps(decorated)
    def run(*arguments: Any, **fixtures: Any) -> None:
        failed: list[tuple[str, BaseException]] = []
        for row in table:
            try:
                function(*arguments, **fixtures, **row.arguments)
            except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                error.add_note(f"in {row.id}")
                failed.append((row.id, error))
        if failed:
            names = ", ".join(name for name, _ in failed)
            raise BaseExceptionGroup(f"{len(failed)} of {len(table)} rows failed: {names}", [error for _, error in failed])

    signature = inspect.signature(function)
    missing = [name for name in columns if name not in signature.parameters]
    if missing:
        raise ValueError(f"{function.__name__} takes no argument {', '.join(missing)}")
    kept = [parameter for name, parameter in signature.parameters.items() if name not in columns]
    run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    run.rows, run.of_row = table, function  # type: ignore[attr-defined]
    return run
