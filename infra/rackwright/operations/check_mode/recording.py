"""What nodes answered the phases when all was as declared, kept between looks: `rackwright.check-mode-cache/1`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from rackwright.files import write_atomic

SCHEMA: Final = "rackwright.check-mode-cache/1"
MAX_AGE: Final = timedelta(days=7)
"""After which the phases look themselves again, whatever nodes answer: certificates that near their end, say, are seen by the clock."""


@dataclass(frozen=True, slots=True)
class Record:
    """Calls by node in their order, each {task, module, user, arguments, environment, answer}."""

    inputs: str
    """Digest of all that decides, beside the answers, what the phases do."""
    when: datetime
    calls: Mapping[str, tuple[Mapping[str, Any], ...]]

    def usable(self, inputs: str, now: datetime) -> bool:
        """Whether the same answers would still mean the same."""
        return self.inputs == inputs and timedelta() <= now - self.when <= MAX_AGE

    def others(self, answers: Mapping[str, Iterable[str]]) -> tuple[tuple[str, str], ...]:
        """(node, task) of the first call of each node that was answered otherwise than it was, or not at all."""
        found = []
        for node, calls in self.calls.items():
            told = [*answers.get(node, ())]
            differs = [call["task"] for call, answer in zip(calls, [*told, *[""] * len(calls)], strict=False) if call["answer"] != answer]
            found += [(node, differs[0])] if differs else []
        return tuple(found)


def from_recorder_lines(lines: Iterable[str], inputs: str, when: datetime, root: Mapping[str, bool]) -> Record | None:
    """Of notes; nothing where they are not all that decided, or hold what cannot be asked again.

    `root`: every node -> whether who logs in there has to become root.
    """
    calls: dict[str, list[dict[str, Any]]] = {name: [] for name in root}
    for line in lines:
        told = json.loads(line)
        if not told.get("module") or told["node"] not in calls or not _by_root(told["user"], becomes=root[told["node"]]):
            return None
        calls[told.pop("node")].append(told)
    return Record(inputs, when, {name: tuple(found) for name, found in calls.items()}) if all(calls.values()) else None


def _by_root(user: str, *, becomes: bool) -> bool:
    """Whether the module ran as root, who asks again as well."""
    return user == "root" or (not user and not becomes)


def modules(record: Record) -> Collection[str]:
    """All that are called."""
    return {call["module"] for calls in record.calls.values() for call in calls}


def read(file: Path) -> Record | None:
    """What was kept; nothing where it is not there, or another version wrote it."""
    try:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if data.get("schema") != SCHEMA:
        return None
    return Record(data["inputs"], datetime.fromisoformat(data["when"]), {name: tuple(calls) for name, calls in data["calls"].items()})


def write(record: Record, file: Path) -> None:
    """Replaced whole, for its owner alone."""
    told = {"schema": SCHEMA, "inputs": record.inputs, "when": record.when.isoformat(), "calls": record.calls}
    write_atomic(file, json.dumps(told), 0o600)
