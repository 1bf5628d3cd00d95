"""Record of a converge run: its lines, and what is read from them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rackwright.report import run_record
from rackwright.report.run_record import RunState, TaskRecord, TaskStatus

NODES = ("login0", "worker0")


def task(host: str = "worker0", status: TaskStatus = TaskStatus.OK, **other: object) -> TaskRecord:
    return TaskRecord(host, "scheduler", "munge", "Configure MUNGE", status, **other)  # type: ignore[arg-type]


def written(file: Path, *tasks: TaskRecord, reasons: tuple[str, ...] | None = ()) -> Path:
    """Write a run; `reasons=None` leaves its end out."""
    run_record.append(file, run_record.start_line(3, "up", "2026-11-28T05:00:00+00:00", NODES))
    for one in tasks:
        run_record.append(file, one.as_dict())
    if reasons is not None:
        run_record.append(file, run_record.end_line(tasks, 12.34, reasons))
    return file


def test_run_is_read_as_written(tmp_path: Path) -> None:
    tasks = (task(status=TaskStatus.CHANGED, seconds=1.5, message="m"), task("login0", TaskStatus.FAILED, stdout="o\nöäü", stderr="e"))
    run = run_record.read(written(tmp_path / "3.jsonl", *tasks, reasons=("login0: e",)))
    assert run is not None and run.tasks == tasks
    assert (run.number, run.what, run.nodes, run.state, run.seconds) == (3, "up", NODES, RunState.FAILED, 12.3)
    assert (run.changed, run.failed, run.reasons) == (1, 1, ("login0: e",))


def test_record_is_private(tmp_path: Path) -> None:
    assert written(tmp_path / "3.jsonl").stat().st_mode & 0o777 == 0o600


def test_summary_equals_run_without_tasks(tmp_path: Path) -> None:
    file = written(tmp_path / "3.jsonl", *[task(stdout="x" * 5000) for _ in range(100)], task(status=TaskStatus.UNREACHABLE))
    summary, run = run_record.read_summary(file), run_record.read(file)
    assert summary is not None and run is not None
    assert summary.tasks == () and summary.as_dict() == run.as_dict()
    assert (summary.failed, summary.state) == (1, RunState.CONVERGED)


@pytest.mark.parametrize("pid", [os.getpid(), 2**22 + 1], ids=["running", "interrupted"])
def test_run_without_end_is_running_or_interrupted(tmp_path: Path, pid: int) -> None:
    file = written(tmp_path / "3.jsonl", task(status=TaskStatus.CHANGED), reasons=None)
    first, *rest = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps({**json.loads(first), "pid": pid}), *rest]) + "\n")
    run = run_record.read(file)
    assert run is not None and run.seconds is None and run.changed == 1
    assert run.state is (RunState.RUNNING if pid == os.getpid() else RunState.INTERRUPTED)


def test_line_that_a_crash_cut_is_left_out(tmp_path: Path) -> None:
    file = written(tmp_path / "3.jsonl", task(), reasons=None)
    with file.open("a") as out:
        out.write('{"host": "worker1", "pha')
    run = run_record.read(file)
    assert run is not None and run.tasks == (task(),)


@pytest.mark.parametrize("text", ["", "{", '{"schema": "rackwright.run-record/0"}\n', "[1]\n"])
def test_file_of_another_schema_is_no_run(tmp_path: Path, text: str) -> None:
    (tmp_path / "1.jsonl").write_text(text)
    assert run_record.read(tmp_path / "1.jsonl") is None and run_record.read_summary(tmp_path / "1.jsonl") is None


def test_hidden_result_that_changed_something_counts_once(tmp_path: Path) -> None:
    """Ansible leaves its changed flag out, so that a later line has it."""
    first, second = task(hidden=True, seconds=2.0), task("login0", hidden=True)
    found = run_record.read_tasks(one.as_dict() for one in (first, second, task(status=TaskStatus.CHANGED, hidden=True)))
    assert [(one.host, one.status, one.seconds) for one in found] == [
        ("worker0", TaskStatus.CHANGED, 2.0),
        ("login0", TaskStatus.OK, 0.0),
    ]
