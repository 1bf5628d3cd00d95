"""Edits of a stack file: the result is validated before it is written, and the difference can be shown."""

from __future__ import annotations

import difflib
import stat
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

from rackwright import rules
from rackwright.errors import InputError
from rackwright.files import write_atomic
from rackwright.model.finding import Finding
from rackwright.stackfile.load import load_text
from rackwright.stackfile.update_machines import Rows, with_machines

_STILL_TO_COME: Final = frozenset({"machine-key-missing", "machine-missing", "capacity-undeclared"})
"""Rules that a stack file may violate while its machines are being added."""


@dataclass(frozen=True)
class Change:
    """A stack file with its current and its new text."""

    file: Path
    before: str
    after: str

    @property
    def diff(self) -> str:
        """Return the change as a unified diff."""
        name = self.file.name
        lines = difflib.unified_diff(self.before.splitlines(), self.after.splitlines(), f"{name} (now)", f"{name} (then)", lineterm="")
        return "\n".join(lines)

    def write(self) -> None:
        """Replace the file atomically and keep its mode."""
        place = self.file.resolve()
        write_atomic(place, self.after, stat.S_IMODE(place.stat().st_mode))


def change_machines(file: Path, rows: Rows) -> Change:
    """Return the change that sets these fields of these machines; raise InputError with all errors that the change would add."""
    before = file.read_text(encoding="utf-8")
    change = Change(file, before, with_machines(before, rows))
    known = {(finding.rule, finding.path) for finding in _errors(file, before)}
    fresh = [finding for finding in _errors(file, change.after) if (finding.rule, finding.path) not in known]
    if wrong := [finding for finding in fresh if finding.rule not in _STILL_TO_COME]:
        raise InputError("\n".join(map(str, wrong)) + f"\n{file.name} was not changed")
    return change


def _errors(file: Path, text: str) -> list[Finding]:
    return [finding for finding in rules.check(load_text(file, text), date.today()) if finding.is_error]
