"""docs/adr/README.md: the list of decisions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from reference.markdown import cell, head, table

_FOLDER: Final = Path(__file__).parents[2] / "docs" / "adr"
_TEXT: Final = "Each decision that binds other parts of the project has a record: what was decided, why, and what was rejected.\n"


def page() -> str:
    """Return the whole page."""
    return "\n".join([head("Decisions", "the records of this folder", _TEXT), *table(("number", "decision"), _rows())])


def _rows() -> Iterator[tuple[str, str]]:
    for path in sorted(_FOLDER.glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0]
        found = re.fullmatch(r"# (?:ADR )?(\d+)[.:]? (.+)", title)
        if found is None:
            raise ValueError(f"{path.name}: title {title!r} (expected `# NUMBER. TITLE`)")
        yield str(int(found[1])), f"[{cell(found[2])}]({path.name})"
