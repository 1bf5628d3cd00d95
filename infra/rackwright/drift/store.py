"""The last look on disk: for programs, for a browser, for CI systems, each file replaced whole."""

from __future__ import annotations

import json
import os
from pathlib import Path

from rackwright.drift.document import Drift


def as_json(found: Drift) -> str:
    """The document as text."""
    return json.dumps(found.as_dict(), indent=1, ensure_ascii=False) + "\n"


def write(text: str, file: Path, mode: int = 0o600) -> None:
    """Write beside and rename, so that a reader never sees half of it; for its owner alone, unless told otherwise."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    beside.touch(mode=0o600)
    beside.chmod(mode)
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)
