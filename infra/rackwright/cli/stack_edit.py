"""Changing a stack file: what it says afterwards is judged before a byte is written, and what changes is shown."""

from __future__ import annotations

import difflib
import os
import shutil
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

from rackwright import rules
from rackwright.errors import BadInput
from rackwright.model.finding import Finding
from rackwright.model.load import load_text
from rackwright.model.rewrite import Rows, with_machines

_STILL_TO_COME: Final = frozenset({"machine-key-missing", "machine-missing", "capacity-undeclared"})
"""What a file may lack while its machines are being written down."""


@dataclass(frozen=True)
class Change:
    """A stack file, and the text it is to have."""

    file: Path
    before: str
    after: str

    @property
    def diff(self) -> str:
        """The change as a person reviews it."""
        name = self.file.name
        lines = difflib.unified_diff(self.before.splitlines(), self.after.splitlines(), f"{name} (now)", f"{name} (then)", lineterm="")
        return "\n".join(lines)

    def write(self) -> None:
        """Make it so, all at once; who may read the file stays as it was."""
        place = self.file.resolve()
        draft = place.with_name(f".{place.name}.new")
        draft.write_text(self.after, encoding="utf-8")
        shutil.copymode(place, draft)
        os.replace(draft, place)


def change_machines(file: Path, rows: Rows) -> Change:
    """The file with these fields of these machines; BadInput with all that would be wrong then and is not now."""
    before = file.read_text(encoding="utf-8")
    change = Change(file, before, with_machines(before, rows))
    known = {(finding.rule, finding.path) for finding in _errors(file, before)}
    fresh = [finding for finding in _errors(file, change.after) if (finding.rule, finding.path) not in known]
    if wrong := [finding for finding in fresh if finding.rule not in _STILL_TO_COME]:
        raise BadInput("\n".join(map(str, wrong)) + f"\n{file.name} stays as it was")
    return change


def _errors(file: Path, text: str) -> list[Finding]:
    return [finding for finding in rules.check(load_text(file, text), date.today()) if finding.is_error]
