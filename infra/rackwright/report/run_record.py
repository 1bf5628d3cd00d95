"""Record of a converge run, `rackwright.run-record/1`: JSON lines for its start, for each task result of each host, and for its end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from rackwright.processes import start_time

SCHEMA: Final = "rackwright.run-record/1"
_TAIL: Final = 256 << 10
"""Bytes from the end in which the last line is searched first; a reason has some kilobytes."""


class TaskStatus(StrEnum):
    """Result of one task on one host."""

    OK = "ok"
    CHANGED = "changed"
    FAILED = "failed"
    IGNORED = "ignored"
    """Failed, and the playbook goes on as if it had not."""
    SKIPPED = "skipped"
    UNREACHABLE = "unreachable"

    @property
    def is_failure(self) -> bool:
        """Return whether the host takes no further part in the run."""
        return self in (TaskStatus.FAILED, TaskStatus.UNREACHABLE)


class RunState(StrEnum):
    """State of a run."""

    CONVERGED = "converged"
    FAILED = "failed"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    """Its process is gone and wrote no end."""


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One task on one host."""

    host: str
    phase: str
    role: str
    task: str
    status: TaskStatus
    seconds: float = 0.0
    message: str = ""
    stdout: str = ""
    stderr: str = ""
    hidden: bool = False
    """The task handles secrets (`no_log`), so that its result is not on record."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that are not empty; host, phase, role, task, status and seconds always."""
        always = {"host": self.host, "phase": self.phase, "role": self.role, "task": self.task, "status": self.status.value}
        rest = {"message": self.message, "stdout": self.stdout, "stderr": self.stderr, "hidden": self.hidden}
        return {**always, "seconds": round(self.seconds, 3), **{key: value for key, value in rest.items() if value}}


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run: its start and its end, and its task results where they were asked for."""

    number: int
    what: str
    """The command or operation that applied the playbooks."""
    started: str
    """ISO 8601, UTC."""
    nodes: tuple[str, ...]
    state: RunState
    seconds: float | None = None
    """None for a run without an end."""
    changed: int | None = None
    failed: int | None = None
    reasons: tuple[str, ...] = ()
    tasks: tuple[TaskRecord, ...] = field(default=(), repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the run without its task results."""
        names = ("number", "what", "started", "nodes", "state", "seconds", "changed", "failed", "reasons")
        data = {name: getattr(self, name) for name in names}
        return {**data, "nodes": list(self.nodes), "state": self.state.value, "reasons": list(self.reasons)}


def start_line(number: int, what: str, started: str, nodes: Iterable[str]) -> dict[str, Any]:
    """Return the first line of a run of this process."""
    process = {"pid": os.getpid(), "pid_started": start_time(os.getpid())}
    return {"schema": SCHEMA, "number": number, "what": what, "started": started, "nodes": list(nodes), **process}


def end_line(tasks: Iterable[TaskRecord], seconds: float, reasons: Iterable[str]) -> dict[str, Any]:
    """Return the last line of a run, with the numbers that its list shows."""
    found, why = list(tasks), list(reasons)
    return {
        "end": RunState.FAILED.value if why else RunState.CONVERGED.value,
        "seconds": round(seconds, 1),
        "changed": sum(task.status is TaskStatus.CHANGED for task in found),
        "failed": sum(task.status.is_failure for task in found),
        "reasons": why,
    }


def append(file: Path, line: Mapping[str, Any]) -> None:
    """Append one line with a single write, so that a killed process leaves whole lines."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb", buffering=0) as out:
        out.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")


def read_summary(file: Path) -> RunRecord | None:
    """Return a run from its first and last line, without counting; None for a file of another schema."""
    with file.open("rb") as stream:
        first = _line(stream.readline())
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - _TAIL))
        last = _line((stream.read().rstrip(b"\n").splitlines() or [b""])[-1])
    return _run(first, last) if first.get("schema") == SCHEMA else None


def read(file: Path) -> RunRecord | None:
    """Return a run with its task results; None for a file of another schema."""
    lines = [_line(line) for line in file.read_bytes().splitlines()]
    if not lines or lines[0].get("schema") != SCHEMA:
        return None
    tasks = read_tasks(lines[1:])
    run = _run(lines[0], lines[-1])
    if run.seconds is None:  # A run without an end has no numbers on record.
        counted = end_line(tasks, 0, ())
        run = replace(run, changed=counted["changed"], failed=counted["failed"])
    return replace(run, tasks=tuple(tasks))


def read_tasks(lines: Iterable[Mapping[str, Any]]) -> list[TaskRecord]:
    """Return the task results of lines. A hidden result that changed something has a later line, which takes its place."""
    found: list[TaskRecord] = []
    hidden: dict[tuple[str, str, str], int] = {}
    for line in lines:
        if "host" not in line:
            continue
        task = TaskRecord(**{**line, "status": TaskStatus(line["status"])})
        place = (task.host, task.phase, task.task)
        if task.hidden and task.status is TaskStatus.CHANGED and place in hidden:
            before = hidden.pop(place)
            found[before] = replace(found[before], status=TaskStatus.CHANGED)
            continue
        if task.hidden and task.status is TaskStatus.OK:
            hidden[place] = len(found)
        found.append(task)
    return found


def _run(first: Mapping[str, Any], last: Mapping[str, Any]) -> RunRecord:
    begun = {"number": first["number"], "what": first["what"], "started": first["started"], "nodes": tuple(first["nodes"])}
    if "end" not in last:
        lives = first.get("pid_started") is not None and start_time(int(first["pid"])) == first["pid_started"]
        return RunRecord(**begun, state=RunState.RUNNING if lives else RunState.INTERRUPTED)
    numbers = {name: last[name] for name in ("seconds", "changed", "failed")}
    return RunRecord(**begun, state=RunState(last["end"]), **numbers, reasons=tuple(last["reasons"]))


def _line(text: bytes) -> dict[str, Any]:
    """Return a line's object; empty for a line that a full disk or a crash cut."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
