"""The last scan on disk: for programs, browsers and CI systems, each file replaced atomically."""

from __future__ import annotations

import json
from pathlib import Path

from rackwright.drift.document import DriftReport
from rackwright.files import write_atomic


def as_json(found: DriftReport) -> str:
    """Return the document as text."""
    return json.dumps(found.as_dict(), indent=1, ensure_ascii=False) + "\n"


def write(text: str, file: Path, mode: int = 0o600) -> None:
    """Replace a file of a scan, readable by its owner only unless another mode is given."""
    write_atomic(file, text, mode)
