"""`rackwright runs`: the list, one record, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import CliResult, Run, run_cli

from rackwright.operations.run_records import RunWriter
from rackwright.report import run_record
from rackwright.report.run_record import TaskRecord, TaskStatus
from rackwright.report.schemas import schema_errors

FAILED = TaskRecord(
    "worker0",
    "scheduler",
    "slurm_worker",
    "Configure and run slurmd",
    TaskStatus.FAILED,
    31.5,
    "slurmd.service: start failed",
    stderr="\x1b[31mno",
)
OK = TaskRecord("login0", "bootstrap", "base", "Configure users", TaskStatus.OK, 0.2, "all as declared", stdout="quiet")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`rackwright runs lab`, with one run that failed on record."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    writer = RunWriter("lab", "up", ["login0", "worker0"], clock=iter([0.0, 61.25]).__next__)
    assert writer.file is not None
    for task in (OK, FAILED):
        run_record.append(writer.file, task.as_dict())
    writer.end(["worker0: scheduler: Configure and run slurmd: slurmd.service: start failed"])

    def once(*arguments: str) -> CliResult:
        return run_cli(monkeypatch, capsys, "runs", "lab", *arguments)

    return once


def test_list_has_one_row_per_run(run: Run) -> None:
    heads, row = run().out.splitlines()
    assert heads.split() == ["run", "started", "(UTC)", "what", "nodes", "state", "changed", "failed", "seconds"]
    assert row.split()[0] == "1" and row.split()[3:] == ["up", "2", "failed", "0", "1", "61.2"]


def test_one_run_is_printed_with_what_programs_said(run: Run) -> None:
    shown = run("1").out
    assert "2 nodes: failed, 0 changed, 1 failed, 61.2 s" in shown
    assert "worker0  failed        31.5 s  scheduler slurm_worker: Configure and run slurmd" in shown
    assert "    slurmd.service: start failed\n    stderr:\n      \\x1b[31mno" in shown, "control characters are shown and not obeyed"
    assert "login0  ok             0.2 s  bootstrap base: Configure users" in shown and "quiet" not in shown


def test_failed_and_node_select_results(run: Run) -> None:
    assert "login0  ok" not in run("1", "--failed").out
    assert "worker0  failed" not in run("1", "--node", "login0").out


def test_json_has_every_result(run: Run) -> None:
    found = json.loads(run("1", "--json").out)
    assert (found["schema"], found["stack"], found["state"]) == ("rackwright.run/1", "lab", "failed")
    assert schema_errors("run", found) == []
    assert found["tasks"][0] == {**OK.as_dict(), "message": "all as declared", "stdout": "quiet"}
    listed = json.loads(run("--json").out)
    assert schema_errors("runs", listed) == []
    assert listed["schema"] == "rackwright.runs/1" and [one["number"] for one in listed["runs"]] == [1]


@pytest.mark.parametrize("arguments", [("--failed",), ("--node", "worker0"), ("7",), ("1", "--node", "worker7")])
def test_invalid_input_is_refused(run: Run, arguments: tuple[str, ...]) -> None:
    assert run(*arguments).code == 2


def test_documents_of_run_without_end_are_valid(run: Run) -> None:
    writer = RunWriter("lab", "up", ["login0"])
    assert writer.file is not None
    run_record.append(writer.file, replace(OK, hidden=True).as_dict())
    assert schema_errors("run", json.loads(run("2", "--json").out)) == []
    assert schema_errors("runs", json.loads(run("--json").out)) == []
    assert run().out.splitlines()[-1].split()[-4:] == ["running", "-", "-", "-"]
