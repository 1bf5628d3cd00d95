"""Records of a stack's last converge runs: begun and ended by the operation that applies the playbooks, and read by people."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import require_up
from rackwright.model.finding import did_you_mean
from rackwright.report import run_record
from rackwright.report.redact import redactor
from rackwright.report.run_record import RunRecord

KEPT: Final = 10
"""Runs on record. A result without output takes about 200 bytes, so that one run of 100 nodes with 300 tasks each takes 6 MB."""
_SUFFIX: Final = ".jsonl"


class RunWriter:
    """Record of a run of this process. Raises nothing: what cannot be recorded must not fail the run, and is said by `problem`."""

    def __init__(self, stack: str, what: str, nodes: Collection[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stack, self._clock, self._began = stack, clock, clock()
        self.number, self.file = 0, None
        self.problem = ""
        try:
            self.number, self.file = _begin(stack, what, nodes)
        except OSError as error:
            self.problem = _said(error)

    file: Path | None
    """File of the task results; None if none could be created."""

    def end(self, reasons: Iterable[str]) -> list[str]:
        """Record how the run ended. Return the reasons, followed by the command that prints the complete record."""
        why = list(reasons)
        if self.file is None:
            return why
        mask = redactor(paths.secrets(self._stack), paths.ssh_private_key_file(self._stack))
        try:
            found = run_record.read(self.file)
            tasks = found.tasks if found else ()
            run_record.append(self.file, run_record.end_line(tasks, self._clock() - self._began, map(mask, why)))
        except OSError as error:
            self.problem = _said(error)
        return [*why, f"complete record of this run: {command(self._stack, self.number)}"] if why else []


def command(stack: str, number: int) -> str:
    """Return the command that prints the failures of a run."""
    return f"`rackwright runs {stack} {number} --failed`"


def list_runs(stack: str) -> list[RunRecord]:
    """Return the recorded runs without their task results, the oldest first. Raises InputError for a stack that is not up."""
    found = [summary for file in _files(stack).values() if (summary := run_record.read_summary(file))]
    if not found:
        require_up(stack)
    return found


def read_run(stack: str, number: int, *, nodes: Collection[str] = (), failed: bool = False) -> RunRecord:
    """Return one run with its task results, of some nodes or only those that failed. Raises InputError for unknown runs and nodes."""
    files = _files(stack)
    found = run_record.read(files[number]) if number in files else None
    if found is None:
        if not files:
            require_up(stack)
        known = f"the runs on record are {', '.join(map(str, files))}" if files else f"run `rackwright up {stack}`"
        raise InputError(f"no run {number} is on record", path=f"stack {stack}", hint=known)
    known_nodes = {*found.nodes, *(task.host for task in found.tasks)}
    for name in nodes:
        if name not in known_nodes:
            raise InputError(f"run {number} had no node `{name}`", path="--node", hint=did_you_mean(name, sorted(known_nodes)))
    chosen = (task for task in found.tasks if (not nodes or task.host in nodes) and (not failed or task.status.is_failure))
    return replace(found, tasks=tuple(chosen))


def _files(stack: str) -> dict[int, Path]:
    """Return the records by number, in their order."""
    found = {int(file.stem): file for file in paths.runs(stack).glob(f"*{_SUFFIX}") if file.stem.isdigit()}
    return dict(sorted(found.items()))


def _begin(stack: str, what: str, nodes: Collection[str]) -> tuple[int, Path]:
    """Create the record of a new run and delete those beyond KEPT."""
    folder = paths.runs(stack)
    paths.prepare(stack)
    folder.mkdir(mode=0o700, exist_ok=True)
    before = _files(stack)
    number = max(before, default=0) + 1
    file = folder / f"{number}{_SUFFIX}"
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    started = datetime.now(UTC).isoformat(timespec="seconds")
    run_record.append(file, run_record.start_line(number, what, started, sorted(nodes)))
    for old in list(before.values())[: max(0, len(before) + 1 - KEPT)]:
        old.unlink(missing_ok=True)
    return number, file


def _said(error: OSError) -> str:
    return f"the run's record was not written completely: {error.filename or ''}: {error.strerror}"
