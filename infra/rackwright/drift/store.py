"""The last scan on disk: for programs, browsers and CI systems, each file replaced atomically."""

from __future__ import annotations

import json
import os
from pathlib import Path

from rackwright.drift.document import Drift


def as_json(found: Drift) -> str:
    """The document as text."""
    return json.dumps(found.as_dict(), indent=1, ensure_ascii=False) + "\n"


def write(text: str, file: Path, mode: int = 0o600) -> None:
    """Write a temporary file and rename it, so that readers never see a partial file; mode 0600 by default."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    beside.touch(mode=0o600)
    beside.chmod(mode)
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)
