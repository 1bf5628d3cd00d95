"""Symptoms that users notice, where to start, and the related checks: symptoms.yml."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from rackwright.yaml_loader import load_yaml

_FILE: Final = Path(__file__).with_name("symptoms.yml")


@dataclass(frozen=True, slots=True)
class Symptom:
    """A symptom, with the places to inspect in order."""

    title: str
    notice: str
    look_first: tuple[str, ...]
    checks: tuple[str, ...]
    """Subjects of checks.yml."""
    acceptance: tuple[str, ...]
    """Phases of the acceptance."""


@cache
def symptoms() -> tuple[Symptom, ...]:
    """Return all symptoms, in the order of the page."""
    rows = load_yaml(_FILE.read_text(encoding="utf-8"))
    return tuple(
        Symptom(title, row["notice"], tuple(row["look_first"]), tuple(row["checks"]), tuple(row.get("acceptance", ())))
        for title, row in rows.items()
    )
