"""Module results of a run in which everything was as declared, saved between scans: `rackwright.check-mode-cache/1`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from rackwright.files import write_atomic

SCHEMA: Final = "rackwright.check-mode-cache/1"
MAX_AGE: Final = timedelta(days=7)
"""Age after which the phases run again, whatever the nodes return: some results depend on the clock, such as expiring certificates."""


@dataclass(frozen=True, slots=True)
class Record:
    """Module calls by node, in order: {task, module, user, arguments, environment, answer}."""

    inputs: str
    """Digest of all other inputs of the phases."""
    when: datetime
    calls: Mapping[str, tuple[Mapping[str, Any], ...]]

    def is_valid_for(self, inputs: str, now: datetime) -> bool:
        """Return whether the same results would still lead to the same outcome."""
        return self.inputs == inputs and timedelta() <= now - self.when <= MAX_AGE

    def mismatches(self, answers: Mapping[str, Iterable[str]], late: Collection[str] = ()) -> tuple[tuple[str, str], ...]:
        """Return (node, task) of the first call of each node whose result differs or is missing. `late`: nodes that were not waited for."""
        found = []
        for node, calls in self.calls.items():
            results = [*answers.get(node, ())]
            filled = results if node in late else [*results, *[""] * len(calls)]
            differs = [call["task"] for call, answer in zip(calls, filled, strict=False) if call["answer"] != answer]
            found += [(node, differs[0])] if differs else []
        return tuple(found)

    def only(self, nodes: Collection[str]) -> Record:
        """Return the record of some nodes."""
        return replace(self, calls={name: calls for name, calls in self.calls.items() if name in nodes})


def from_recorder_lines(lines: Iterable[str], inputs: str, when: datetime, root: Mapping[str, bool]) -> Record | None:
    """Return the record of a recorder's lines; None if they are incomplete, or contain a call that cannot be repeated.

    `root`: every node -> whether its login user needs sudo.
    """
    calls: dict[str, list[dict[str, Any]]] = {name: [] for name in root}
    for line in lines:
        call = json.loads(line)
        if not call.get("module") or call["node"] not in calls or not _ran_as_root(call["user"], becomes=root[call["node"]]):
            return None
        calls[call.pop("node")].append(call)
    return Record(inputs, when, {name: tuple(found) for name, found in calls.items()}) if all(calls.values()) else None


def _ran_as_root(user: str, *, becomes: bool) -> bool:
    """Return whether the module ran as root; the replay runs as root as well."""
    return user == "root" or (not user and not becomes)


def modules(record: Record) -> Collection[str]:
    """Return the names of all called modules."""
    return {call["module"] for calls in record.calls.values() for call in calls}


def read(file: Path) -> Record | None:
    """Read the saved record; return None if it is missing or of another version."""
    try:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if data.get("schema") != SCHEMA:
        return None
    return Record(data["inputs"], datetime.fromisoformat(data["when"]), {name: tuple(calls) for name, calls in data["calls"].items()})


def write(record: Record, file: Path) -> None:
    """Replace the file atomically, readable by its owner only."""
    data = {"schema": SCHEMA, "inputs": record.inputs, "when": record.when.isoformat(), "calls": record.calls}
    write_atomic(file, json.dumps(data), 0o600)
