"""The event file of an attempt: one line of JSON for each event. Standard library only."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


class Events:
    """The event file of an attempt, written by rank 0."""

    def __init__(self, run: Path, attempt: str, *, writes: bool) -> None:
        self._path, self._attempt, self._writes = run / f"events-{attempt}.jsonl", attempt, writes

    def write(self, event: str, **fields: Any) -> None:
        """Append one line, complete or not at all."""
        if not self._writes:
            return
        line = json.dumps({"event": event, "attempt": self._attempt, "time": round(time.time(), 3), **fields}) + "\n"
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line)
