"""What tasks said, each line with the rank of who said it before it: how jobs come back, whoever ran them."""

from __future__ import annotations

import ast
import contextlib
import json
import re
from pathlib import Path
from typing import Any, Final

from rackwright.checks.acceptance.phase import Program

HEAD: Final = "rackwright-task "
"""How the line begins in which a task says who it is."""
_LABELLED: Final = re.compile(r" *(\d+): ?(.*)", re.DOTALL)


def preceded(program: Program, prelude: Path) -> str:
    """The text that tasks run: the program, with the lines that say who the task is after its docstring and its `__future__`."""
    lines = program.text.splitlines(keepends=True)
    first = 0
    for statement in ast.parse(program.text).body:
        words = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not words and not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        first = statement.end_lineno or 0
    return "".join([*lines[:first], "\n\n", prelude.read_text(encoding="utf-8"), "\n\n", *lines[first:]])


def tasks(lines: list[tuple[int, str]]) -> list[tuple[dict[str, Any], list[str]]]:
    """What each task said of itself, and its other lines, by rank. One that never said who it is has no place here."""
    others: dict[int, list[str]] = {}
    found: dict[int, dict[str, Any]] = {}
    for rank, said in lines:
        head = _head(said) if rank not in found else None
        if head is not None:
            found[rank] = head
        else:
            others.setdefault(rank, []).append(said)
    return [(found[rank], others.get(rank, [])) for rank in sorted(found)]


def whole_lines(text: str, cut: int | None = None) -> list[tuple[int, str]]:
    """Lines of tasks with the rank of who said them; those that were cut after so many bytes are put together again."""
    found: list[tuple[int, str]] = []
    open_lines: dict[int, int] = {}
    for line in text.split("\n"):
        labelled = _LABELLED.match(line)
        if not labelled:
            continue
        rank, said = int(labelled[1]), labelled[2]
        if rank in open_lines:
            place = open_lines.pop(rank)
            found[place] = (rank, found[place][1] + said)
        else:
            place = len(found)
            found.append((rank, said))
        if len(said.encode()) == cut:
            open_lines[rank] = place
    return found


def of_a_task(line: str) -> bool:
    """Whether a line bears the number of a task."""
    return _LABELLED.match(line) is not None


def _head(line: str) -> dict[str, Any] | None:
    """What a task says of itself; None for every other line, and for one that was torn."""
    if not line.startswith(HEAD):
        return None
    with contextlib.suppress(ValueError):
        said: dict[str, Any] = json.loads(line.removeprefix(HEAD))
        return said
    return None


def unlabelled(text: str) -> str:
    """Lines without the number of the task that said them.

    >>> unlabelled("0: no such file")
    'no such file'
    """
    return "\n".join(match[2] if (match := _LABELLED.match(line)) else line for line in text.splitlines())
