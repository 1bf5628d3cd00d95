"""Recorded demo runs in a stack's folder: one JSON file for each run, named after its kind and time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rackwright.report.schemas import schema_errors

FOLDER: Final = "demos"
"""In the stack's folder."""
SCHEMAS: Final[Mapping[str, str]] = {"train": "demo", "finetune": "finetune", "serve": "serve"}
"""Name of the contract of the records of each kind."""


def _started(file: Path) -> tuple[str, int]:
    """Return a key by time: runs have names with their second and a random part, and are written in the order of their ends."""
    return file.stem.rpartition("-")[0], file.stat().st_mtime_ns


def records(folder: Path, kind: str) -> Iterator[dict[str, Any]]:
    """Yield the records of a kind in a folder of records, the newest first. Files that break the contract are left out."""
    for file in sorted(folder.glob(f"{kind}-*.json"), key=_started, reverse=True):
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and not schema_errors(SCHEMAS[kind], found):
            yield found


def last_records(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the newest record of each kind in a stack's folder, by kind."""
    newest = {kind: next(records(folder / FOLDER, kind), None) for kind in SCHEMAS}
    return {kind: record for kind, record in newest.items() if record is not None}
