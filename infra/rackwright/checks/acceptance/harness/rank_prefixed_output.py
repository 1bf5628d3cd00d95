"""Output of tasks in which each line starts with the rank of its task, for every launcher."""

from __future__ import annotations

import ast
import contextlib
import json
import re
from pathlib import Path
from typing import Any, Final

from rackwright.checks.acceptance.phase import Program

HEAD: Final = "rackwright-task "
"""Prefix of the line with which a task identifies itself."""
_LABELLED: Final = re.compile(r" *(\d+): ?(.*)", re.DOTALL)


def preceded(program: Program, prelude: Path) -> str:
    """Return the text that tasks run: the program, with the prelude that identifies the task after its docstring and its `__future__`."""
    lines = program.text.splitlines(keepends=True)
    first = 0
    for statement in ast.parse(program.text).body:
        words = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not words and not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        first = statement.end_lineno or 0
    return "".join([*lines[:first], "\n\n", prelude.read_text(encoding="utf-8"), "\n\n", *lines[first:]])


def tasks(lines: list[tuple[int, str]]) -> list[tuple[dict[str, Any], list[str]]]:
    """Return the header and the other lines of each task, by rank. A task without a header is left out."""
    others: dict[int, list[str]] = {}
    found: dict[int, dict[str, Any]] = {}
    for rank, text in lines:
        head = _head(text) if rank not in found else None
        if head is not None:
            found[rank] = head
        else:
            others.setdefault(rank, []).append(text)
    return [(found[rank], others.get(rank, [])) for rank in sorted(found)]


def whole_lines(text: str, cut: int | None = None) -> list[tuple[int, str]]:
    """Return the lines of tasks with their ranks; lines that were cut after `cut` bytes are joined again."""
    found: list[tuple[int, str]] = []
    open_lines: dict[int, int] = {}
    for line in text.split("\n"):
        labelled = _LABELLED.match(line)
        if not labelled:
            continue
        rank, content = int(labelled[1]), labelled[2]
        if rank in open_lines:
            place = open_lines.pop(rank)
            found[place] = (rank, found[place][1] + content)
        else:
            place = len(found)
            found.append((rank, content))
        if len(content.encode()) == cut:
            open_lines[rank] = place
    return found


def of_a_task(line: str) -> bool:
    """Return whether a line starts with the rank of a task."""
    return _LABELLED.match(line) is not None


def _head(line: str) -> dict[str, Any] | None:
    """Return the header of a task; None for every other line, and for an incomplete one."""
    if not line.startswith(HEAD):
        return None
    with contextlib.suppress(ValueError):
        fields: dict[str, Any] = json.loads(line.removeprefix(HEAD))
        return fields
    return None


def unlabelled(text: str) -> str:
    """Return lines without the rank of their task.

    >>> unlabelled("0: no such file")
    'no such file'
    """
    return "\n".join(match[2] if (match := _LABELLED.match(line)) else line for line in text.splitlines())
