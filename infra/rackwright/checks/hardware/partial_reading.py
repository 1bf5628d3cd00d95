"""Partially read answers: the facts, and why the rest is unknown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from rackwright.checks.cluster.harness.tool_output import UnreadableValue, first_reasons, quoted, whole_lines

T = TypeVar("T")
UNREADABLE = (ValueError, KeyError, IndexError, TypeError, AttributeError)


class Rows(tuple[T, ...]):
    """Facts of one part, row by row. `why` lists what was not read, and is empty if everything was."""

    why: str
    lost: tuple[str, ...]
    """GPUs that do not respond."""

    def __new__(cls, rows: Iterable[T] = (), why: str = "", lost: tuple[str, ...] = ()) -> Rows[T]:
        """Return the rows with the reasons for missing ones."""
        made = super().__new__(cls, tuple(rows))
        made.why, made.lost = why, lost
        return made


@dataclass(frozen=True)
class PartialValue(Generic[T]):
    """A fact that is no list, with the reasons for missing parts."""

    value: T
    why: str


def read_lines(text: str, make: Callable[[str], T | None], row: str = r"\|") -> Rows[T]:
    """Return what `make` returns for each line, without None; a line for which it raises is quoted in `why`.

    Lines without the pattern `row` are warnings. Raises ValueError if no line was read and there are some.
    """
    lines, partial = whole_lines(text)
    wanted = [line for line in lines if re.search(row, line)]
    if lines and not wanted:
        raise ValueError(f'no row: "{quoted(lines[0])}"')
    rows = read_each(wanted, make, "line", quoted)
    return Rows(rows, "; ".join(filter(None, (rows.why, *(f'a line is cut short: "{quoted(line)}"' for line in partial)))))


def read_each(items: Iterable[object], make: Callable[..., T | None], what: str, quote: Callable[..., str]) -> Rows[T]:
    """Return what `make` returns for each item, as `read_lines` does for lines."""
    rows, bad, read = list[T](), list[str](), False
    for item in items:
        try:
            row = make(item)
        except UNREADABLE:
            bad.append(f'a {what} cannot be read: "{quote(item)}"')
        else:
            read = True
            rows += [] if row is None else [row]
    if bad and not read:
        raise ValueError(bad[0])
    return Rows(rows, "; ".join(dict.fromkeys(bad)))


def without(value: T | UnreadableValue | None, unread: list[UnreadableValue]) -> T | None:
    """Return a value, or None after adding it to those that were not read."""
    if isinstance(value, UnreadableValue):
        unread.append(value)
        return None
    return value


def reasons(unread: Iterable[UnreadableValue], *others: str) -> str:
    """Return why values are unknown, in one line."""
    return "; ".join(filter(None, (first_reasons(unread), *others)))
