"""Damage to a tool's output, as it happens: a cell that the tool could not fill, a line too few or too many, a warning, an early end."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

CELLS = ("", "[N/A]", "ERR!", "[Unknown Error]", "3.35544e+07", "1,5", "\x00", "\x1b]0;x\x07", "\ufffd\u202e", "\x85")
"""Replacements of a value; the last ones are what users write into names and comments."""
WARNING = "Warning: this feature is deprecated and will be removed"


@dataclass(frozen=True)
class Damaged:
    """An output with one damage."""

    what: str
    text: str
    line: str
    """The line that was changed, as it was; empty where no line of the tool was."""


def damages(text: str, most: int = 60, seed: int = 7) -> Iterator[Damaged]:
    """Yield outputs with one damage each: all whole-line damages of up to `most` lines, and as many damaged cells, chosen by the seed."""
    text = text if text.endswith("\n") else f"{text}\n"
    chance, lines = random.Random(seed), text.splitlines()
    yield Damaged("nothing", "", "*")
    yield Damaged("a blank line", "\n", "*")
    yield Damaged("CRLF", text.replace("\n", "\r\n"), "")
    for place in sorted({0, len(lines) // 2, len(lines)}):
        yield Damaged(f"warning at line {place}", _joined([*lines[:place], WARNING, *lines[place:]]), "")
    for number in _some(chance, range(len(lines)), most):
        line = lines[number] or "(blank)"
        yield Damaged(f"without line {number}", _joined([*lines[:number], *lines[number + 1 :]]), line)
        yield Damaged(f"line {number} twice", _joined([*lines[:number], *lines[number : number + 1], *lines[number:]]), line)
    cells = [(number, found.span()) for number, line in enumerate(lines) for found in re.finditer(r"[^\s,|:=\"{}()\[\]]+", line)]
    for number, (start, end) in _some(chance, cells, most):
        cell = chance.choice(CELLS)
        line = lines[number][:start] + cell + lines[number][end:]
        yield Damaged(
            f"line {number}: {lines[number][start:end]!r} -> {cell!r}",
            _joined([*lines[:number], line, *lines[number + 1 :]]),
            lines[number],
        )
    for end in _some(chance, range(1, text.index("\n")), most // 4):
        yield Damaged(f"cut at {end}, in the first line", text[:end], "*")
    for end in _some(chance, range(text.index("\n") + 1, len(text)), most):
        yield Damaged(f"cut at {end}", text[:end], "*")


def _joined(lines: list[str]) -> str:
    return "\n".join([*lines, ""])


def _some(chance, items, most):
    items = list(items)
    return items if len(items) <= most else chance.sample(items, most)
