"""Records of a stack's last runs: numbers, how many are kept, and what is read of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.operations import run_records
from rackwright.operations.run_records import RunWriter, list_runs, read_run
from rackwright.report import run_record
from rackwright.report.run_record import RunState, TaskRecord, TaskStatus


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def ran(*results: tuple[str, TaskStatus], reasons: tuple[str, ...] = ()) -> RunWriter:
    """Record a run with these task results by host."""
    run = RunWriter("lab", "up", ["worker0", "login0"], clock=iter([5.0, 12.0]).__next__)
    assert run.file is not None
    for host, status in results:
        run_record.append(run.file, TaskRecord(host, "gpu", "cuda", "Install", status).as_dict())
    run.end(reasons)
    return run


def test_last_ten_runs_are_kept_and_numbers_go_on() -> None:
    for _ in range(13):
        ran()
    assert [run.number for run in list_runs("lab")] == list(range(4, 14))
    assert {file.name for file in paths.runs("lab").iterdir()} == {f"{number}.jsonl" for number in range(4, 14)}


def test_record_is_readable_by_its_owner_alone() -> None:
    run = ran()
    assert run.file is not None
    assert (run.file.stat().st_mode & 0o777, paths.runs("lab").stat().st_mode & 0o777) == (0o600, 0o700)


def test_list_has_numbers_of_each_run() -> None:
    ran(("worker0", TaskStatus.CHANGED), ("worker0", TaskStatus.OK))
    ran(("worker0", TaskStatus.FAILED), ("login0", TaskStatus.UNREACHABLE), reasons=("worker0: no",))
    first, second = list_runs("lab")
    assert (first.number, first.nodes, first.state, first.changed, first.failed, first.seconds) == (
        1,
        ("login0", "worker0"),
        RunState.CONVERGED,
        1,
        0,
        7.0,
    )
    assert (second.state, second.changed, second.failed) == (RunState.FAILED, 0, 2)


def test_reasons_name_the_command_that_prints_the_record() -> None:
    run = RunWriter("lab", "up", ["worker0"])
    assert run.end(["worker0: no"]) == ["worker0: no", "complete record of this run: `rackwright runs lab 1 --failed`"]
    assert RunWriter("lab", "up", ["worker0"]).end([]) == []


def test_reasons_on_record_have_no_secrets() -> None:
    paths.prepare("lab")
    paths.secrets("lab").write_text("secrets: {munge: 0123456789abcdef}\n")
    RunWriter("lab", "up", ["worker0"]).end(["worker0: key 0123456789abcdef"])
    assert list_runs("lab")[0].reasons == ("worker0: key [secret]",)


def test_results_are_selected_by_node_and_failure() -> None:
    results = [("login0", TaskStatus.FAILED), ("worker0", TaskStatus.OK), ("worker0", TaskStatus.FAILED), ("worker0", TaskStatus.IGNORED)]
    ran(*results)
    statuses = [task.status for task in read_run("lab", 1, nodes=["worker0"]).tasks]
    assert statuses == [TaskStatus.OK, TaskStatus.FAILED, TaskStatus.IGNORED]
    assert [task.host for task in read_run("lab", 1, failed=True).tasks] == ["login0", "worker0"]
    assert len(read_run("lab", 1).tasks) == 4


def test_unknown_run_and_node_are_refused() -> None:
    ran()
    with pytest.raises(InputError, match="no run 4 is on record") as refused:
        read_run("lab", 4)
    assert refused.value.hint == "the runs on record are 1"
    with pytest.raises(InputError, match="run 1 had no node `worker9`"):
        read_run("lab", 1, nodes=["worker9"])


def test_record_that_cannot_be_created_fails_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    paths.prepare("lab")
    paths.runs("lab").write_text("in the way")
    run = RunWriter("lab", "up", ["worker0"])
    assert run.file is None and "File exists" in run.problem
    assert run.end(["worker0: no"]) == ["worker0: no"], "no command prints a record that does not exist"


def test_stack_without_runs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(stack: str) -> Path:
        raise InputError("is not up", path=f"stack {stack}")

    monkeypatch.setattr(run_records, "require_up", refuse)
    for ask in (lambda: list_runs("lab"), lambda: read_run("lab", 1)):
        with pytest.raises(InputError, match="is not up"):
            ask()
