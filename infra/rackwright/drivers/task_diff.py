"""Live and declared values of a changed task, side by side: the lines in which they differ."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_MOST: Final = 6
"""Maximum number of displayed lines of a side."""
_WIDEST: Final = 160
"""Maximum number of displayed characters of a line."""
_LONGEST: Final = 4_000
"""Maximum characters of a line that the child sends: more than any one-line secret, so that the code that masks secrets sees it whole."""
_LARGEST: Final = 50_000
"""Maximum number of characters of a text that is compared line by line."""
_ABSENT: Final = ("", "absent")
"""Values by which modules report that a path does not exist."""


@dataclass
class BeforeAfter:
    """Live and declared lines. A side is empty where the other one contains all its lines."""

    live: list[str] = field(default_factory=list)
    declared: list[str] = field(default_factory=list)

    def texts(self) -> tuple[str, str]:
        """Return both sides, bounded; `truncate_lines` shortens them for display after secrets are masked."""
        return _bounded(self.live), _bounded(self.declared)


def sides(result: Mapping[str, Any]) -> tuple[str, str]:
    """Return (live, declared) of a task's result under --diff; empty texts where the result has none."""
    found = BeforeAfter()
    for one in (result, *(item for item in _listed(result.get("results")) if isinstance(item, Mapping) and item.get("changed"))):
        _note(one, found)
    return found.texts()


def _note(result: Mapping[str, Any], found: BeforeAfter) -> None:
    """Add the differences of one result, or of one item of a loop."""
    for diff in _listed(result.get("diff")):
        if "prepared" not in diff:
            _compare(diff, found)
    actions = [one for one in _listed(result.get("actions")) if isinstance(one, Mapping)]
    found.live += [f"{one['unit']}: {one['reason']}" for one in actions]
    if not actions:
        found.live += [line for diff in _listed(result.get("diff")) for line in str(diff.get("prepared", "")).splitlines()]
    if not found.live and "cmd" in result:
        found.live += str(result.get("stdout", "")).splitlines()


def _compare(diff: Mapping[str, Any], found: BeforeAfter) -> None:
    """Add the differences of one text, or of attributes of one path."""
    name = str(diff.get("before_header") or diff.get("after_header") or "").removesuffix(" (content)")
    before, after = _text(diff.get("before")), _text(diff.get("after"))
    mark = f"{name}: " if name else ""
    if before.strip() in _ABSENT:
        found.live.append(f"{mark}nothing")
        return
    if max(len(before), len(after)) > _LARGEST:
        found.live.append(f"{mark}differs")
        return
    removed, added = _differing(before.splitlines(), after.splitlines())
    found.live += _under(mark, removed)
    found.declared += _under(mark, added)


def _differing(before: list[str], after: list[str]) -> tuple[list[str], list[str]]:
    """Return the lines that only one of the two texts has."""
    diff = list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]
    return [line[1:] for line in diff if line.startswith("-")], [line[1:] for line in diff if line.startswith("+")]


def _under(mark: str, lines: list[str]) -> list[str]:
    """Return the lines with the path in front of the first and the others indented."""
    first, *rest = lines or ["without it"]
    return [f"{mark}{first.strip() if mark else first}", *(f"  {line}" if mark else line for line in rest)]


def _text(side: Any) -> str:
    """Return the text of a side: modules of Ansible return a text, or a mapping of attributes."""
    return "\n".join(f"{key}: {value}" for key, value in side.items()) if isinstance(side, Mapping) else str(side or "")


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else [value] if value else []


def truncate_lines(text: str) -> str:
    """Return the text with long lines cut to a readable width."""
    return "\n".join(line if len(line) <= _WIDEST else f"{line[:_WIDEST]}…" for line in text.splitlines())


def _bounded(lines: list[str]) -> str:
    shown = [line if len(line) <= _LONGEST else "(a line too long to show)" for line in lines[:_MOST]]
    return "\n".join(shown + ([f"… and {len(lines) - _MOST} more lines"] if len(lines) > _MOST else []))
