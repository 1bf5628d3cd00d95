"""Output of `rackwright runs`: the list of runs, and the record of one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from rackwright.cli.render.table import table
from rackwright.printable import printable
from rackwright.report.run_record import RunRecord, TaskRecord, TaskStatus

LIST_SCHEMA: Final = "rackwright.runs/1"
RUN_SCHEMA: Final = "rackwright.run/1"
_HEADINGS: Final = ("run", "started (UTC)", "what", "nodes", "state", "changed", "failed", "seconds")
_WITH_OUTPUT: Final = (TaskStatus.FAILED, TaskStatus.IGNORED, TaskStatus.UNREACHABLE, TaskStatus.CHANGED)
"""Results whose output is printed; `--json` has that of all."""


def list_as_text(runs: Sequence[RunRecord]) -> str:
    """Return one row per run, the newest last."""
    if not runs:
        return "no runs on record"
    return table(_HEADINGS, [_row(run) for run in runs])


def list_as_json(stack: str, runs: Sequence[RunRecord]) -> str:
    """Return the runs without their task results."""
    return json.dumps({"schema": LIST_SCHEMA, "stack": stack, "runs": [run.as_dict() for run in runs]}, indent=2)


def run_as_json(stack: str, run: RunRecord) -> str:
    """Return a run with its task results."""
    tasks = [task.as_dict() for task in run.tasks]
    return json.dumps({"schema": RUN_SCHEMA, "stack": stack, **run.as_dict(), "tasks": tasks}, indent=2)


def run_as_text(run: RunRecord) -> str:
    """Return the summary of a run, why it failed, and its task results in the order of their ends."""
    return printable("\n".join([*_head(run), "", *(line for task in run.tasks for line in _task(task))])).rstrip()


def _row(run: RunRecord) -> list[object]:
    numbers = [_number(value) for value in (run.changed, run.failed, run.seconds)]
    return [run.number, _time(run), run.what, len(run.nodes), run.state.value, *numbers]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _time(run: RunRecord) -> str:
    return run.started[:19].replace("T", " ")


def _head(run: RunRecord) -> Iterator[str]:
    counted = "" if run.changed is None else f", {run.changed} changed, {run.failed} failed"
    took = "" if run.seconds is None else f", {run.seconds:g} s"
    nodes = f"{len(run.nodes)} node{'s' if len(run.nodes) != 1 else ''}"
    yield f"run {run.number}: {run.what}, {_time(run)} UTC, {nodes}: {run.state.value}{counted}{took}"
    for reason in run.reasons:
        yield from _indented(reason, "  ")


def _task(task: TaskRecord) -> Iterator[str]:
    """Yield one line, and below it what a task that failed or changed something said."""
    place = " ".join(part for part in (task.phase, task.role) if part)
    yield f"{task.host}  {task.status.value:11} {task.seconds:6.1f} s  {place}: {task.task}"
    if task.status in _WITH_OUTPUT:
        yield from _indented(task.message, "    ")
        for name, text in (("stdout", task.stdout), ("stderr", task.stderr)):
            if text and text not in task.message:
                yield f"    {name}:"
                yield from _indented(text, "      ")


def _indented(text: str, margin: str) -> list[str]:
    return [f"{margin}{line}" for line in text.splitlines()]
