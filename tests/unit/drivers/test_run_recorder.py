"""From ansible-runner's events to lines of a run's record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rackwright.drivers.ansible_child import Reporter
from rackwright.drivers.failure_reason import HIDDEN
from rackwright.drivers.run_recorder import RunRecorder, task_record
from rackwright.report import run_record
from rackwright.report.run_record import TaskStatus

CENSORED = {"censored": "the output has been hidden due to the fact that 'no_log: true' was specified for this result"}


def event(kind: str, result: dict[str, Any], **other: Any) -> dict[str, Any]:
    """Return an event of ansible-runner (display_callback/callback/awx_display.py)."""
    data = {"host": "worker0", "task": "Install MUNGE", "role": "munge", "duration": 1.25, "res": result, **other}
    return {"event": kind, "event_data": data}


@pytest.mark.parametrize(
    ("kind", "result", "other", "status"),
    [
        ("runner_on_ok", {}, {}, TaskStatus.OK),
        ("runner_on_ok", {"changed": True}, {}, TaskStatus.CHANGED),
        ("runner_on_failed", {}, {}, TaskStatus.FAILED),
        ("runner_on_failed", {}, {"ignore_errors": True}, TaskStatus.IGNORED),
        ("runner_on_unreachable", {}, {}, TaskStatus.UNREACHABLE),
        ("runner_on_skipped", {"skip_reason": "Conditional result was False"}, {}, TaskStatus.SKIPPED),
    ],
)
def test_result_has_status(kind: str, result: dict[str, Any], other: dict[str, Any], status: TaskStatus) -> None:
    found = task_record(kind, event(kind, result, **other)["event_data"], "scheduler")
    assert found is not None
    assert (found.status, found.host, found.phase, found.role, found.seconds) == (status, "worker0", "scheduler", "munge", 1.25)


@pytest.mark.parametrize("kind", ["playbook_on_task_start", "runner_on_start", "runner_item_on_failed", "verbose"])
def test_other_event_is_no_result(kind: str) -> None:
    assert task_record(kind, {"host": "worker0", "task": "x"}, "scheduler") is None


def test_whole_output_is_on_record() -> None:
    result = {"msg": "non-zero return code", "stdout": "\n".join(map(str, range(500))), "stderr": "no space left", "rc": 1}
    found = task_record("runner_on_failed", event("", result)["event_data"], "scheduler")
    assert found is not None and (found.message, found.stdout, found.stderr) == (result["msg"], result["stdout"], result["stderr"])


def test_items_of_loop_are_on_record() -> None:
    items = [{"item": "a", "msg": "done", "stdout": "1"}, {"item": "b", "failed": True, "msg": "is full", "stderr": "ENOSPC"}]
    found = task_record("runner_on_failed", event("", {"msg": "One or more items failed", "results": items})["event_data"], "")
    assert found is not None
    assert (found.message, found.stdout, found.stderr) == ("One or more items failed\na: done\nb: is full", "a:\n1", "b:\nENOSPC")


def test_hidden_result_is_not_on_record() -> None:
    found = task_record("runner_on_failed", event("", CENSORED)["event_data"], "scheduler")
    assert found is not None and found.hidden and (found.message, found.stdout, found.stderr) == (HIDDEN, "", "")


def test_secrets_are_masked_before_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "secrets.yml").write_text(json.dumps({"secrets": {"slurmdbd": "f3a9c1d2e4b5", "key": "line one of it\nline two of it"}}))
    recorder = RunRecorder.of(str(tmp_path / "1.jsonl"), [str(tmp_path / "secrets.yml")])
    assert recorder is not None
    reporter = Reporter({"Slurm": "scheduler"}, recorder)
    reporter.handle({"event": "playbook_on_play_start", "event_data": {"name": "Slurm"}})
    reporter.handle(event("runner_on_failed", {"msg": "no f3a9c1d2e4b5", "stdout": "x line two of it", "stderr": "f3a9c1d2e4b5"}))
    (line,) = (tmp_path / "1.jsonl").read_text().splitlines()
    assert "f3a9c1d2e4b5" not in line and "line two" not in line
    found = json.loads(line)
    assert (found["phase"], found["message"], found["stdout"]) == ("scheduler", "no [secret]", "x [secret]")


def test_hidden_change_is_recorded_at_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorder = RunRecorder.of(str(tmp_path / "1.jsonl"), [])
    reporter = Reporter({"Slurm": "scheduler"}, recorder)
    reporter.handle({"event": "playbook_on_play_start", "event_data": {"name": "Slurm"}})
    reporter.handle(event("runner_on_ok", CENSORED))
    reporter.hidden([json.dumps({"host": "worker0", "play": "Slurm", "role": "munge", "task": "Install MUNGE"})])
    lines = [json.loads(line) for line in (tmp_path / "1.jsonl").read_text().splitlines()]
    assert [one.status for one in run_record.read_tasks(lines)] == [TaskStatus.CHANGED]


def test_record_that_cannot_be_written_fails_nothing(tmp_path: Path) -> None:
    recorder = RunRecorder.of(str(tmp_path / "missing" / "1.jsonl"), [])
    assert recorder is not None
    recorder.handle("runner_on_ok", event("", {})["event_data"], "scheduler")
    assert recorder.problem == f"{tmp_path}/missing/1.jsonl: No such file or directory"


def test_without_file_nothing_is_recorded() -> None:
    assert RunRecorder.of("", []) is None
