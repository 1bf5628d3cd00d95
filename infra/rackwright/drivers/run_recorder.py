"""Recorder of a playbook's task results, from ansible-runner's events to lines of a run's record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rackwright.drivers.failure_reason import HIDDEN, NO_TRACEBACK, is_hidden, message_of, what_changed
from rackwright.report.redact import Redactor, redactor
from rackwright.report.run_record import TaskRecord, TaskStatus, append

_LONGEST: Final = 1 << 20
"""Characters of one text on record. ansible-runner drops results above 700,000 characters as a whole."""


class RunRecorder:
    """Appends task results to the record of a run; secrets are masked before they are written."""

    def __init__(self, file: Path, mask: Redactor) -> None:
        self._file, self._mask = file, mask
        self.problem = ""
        """Why the record is incomplete."""

    @classmethod
    def of(cls, file: str, secrets: Sequence[str]) -> RunRecorder | None:
        """Return the recorder of a file, None without one. `secrets`: files with variables of the playbooks, which are masked."""
        return cls(Path(file), redactor(*(Path(path) for path in secrets))) if file else None

    def handle(self, kind: str, data: Mapping[str, Any], phase: str) -> None:
        """Record the result of an event, if it is one of a task on a host."""
        task = task_record(kind, data, phase)
        if task is not None:
            self.write(task)

    def write(self, task: TaskRecord) -> None:
        """Record a task result. A record that cannot be written must not fail the run that it describes."""
        line = task.as_dict()
        try:
            append(self._file, {key: self._mask(value) if isinstance(value, str) else value for key, value in line.items()})
        except OSError as error:
            self.problem = f"{self._file}: {error.strerror}"


def task_record(kind: str, data: Mapping[str, Any], phase: str) -> TaskRecord | None:
    """Return the record of a task result on a host; None for other events."""
    result = data.get("res") or {}
    status = _status(kind, data, result)
    if status is None:
        return None
    hidden = is_hidden(result)
    return TaskRecord(
        host=str(data.get("host", "")),
        phase=phase,
        role=str(data.get("role") or ""),
        task=str(data.get("task", "")),
        status=status,
        seconds=float(data.get("duration") or 0),
        message=_cut(HIDDEN if hidden else message_of(result) or what_changed(result)),
        stdout=_cut("\n".join(_texts(result, "stdout", "module_stdout"))),
        stderr=_cut("\n".join(_texts(result, "stderr", "module_stderr", "exception"))),
        hidden=hidden,
    )


def _status(kind: str, data: Mapping[str, Any], result: Mapping[str, Any]) -> TaskStatus | None:
    if kind == "runner_on_ok":
        return TaskStatus.CHANGED if result.get("changed") else TaskStatus.OK
    if kind == "runner_on_failed":
        return TaskStatus.IGNORED if data.get("ignore_errors") else TaskStatus.FAILED
    return {"runner_on_unreachable": TaskStatus.UNREACHABLE, "runner_on_skipped": TaskStatus.SKIPPED}.get(kind)


def _texts(result: Mapping[str, Any], *names: str) -> Iterator[str]:
    """Yield the texts of a result, and those of each item of a loop below the item's name."""
    for name in names:
        text = str(result.get(name) or "").strip()
        if text and text != NO_TRACEBACK:
            yield text
    for item in result.get("results") or ():
        if isinstance(item, Mapping) and (found := list(_texts(item, *names))):
            yield from [f"{item.get('item', '')}:", *found]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n({len(text) - _LONGEST} more characters are not on record)"
