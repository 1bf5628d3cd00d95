"""The acceptance of a running stack: options of the run, the report that belongs to it, and its errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from rackwright.catalog.checks import Level
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.operations import acceptance

from .conftest import ignore_progress, report

ACCEPTED = {"schema": "rackwright.acceptance/2", "run": "r1", "user": "alice", "results": "/mnt/sharedfs/r1", "phases": []}


class Run:
    """The run of the acceptance test: its options, and its result."""

    def __init__(self) -> None:
        self.options: list[str] = []
        self.file, self.text = paths.acceptance("lab"), report(**ACCEPTED)
        self.status, self.said = 0, ""
        self.interrupted = False

    async def __call__(self, inventory: Path, ssh_config: Path, options: Sequence[str], _: object) -> tuple[int, str]:
        assert (inventory, ssh_config) == (paths.inventory("lab"), paths.ssh_config("lab"))
        self.options = list(options)
        if self.interrupted:
            raise KeyboardInterrupt
        if self.text:
            self.file.write_text(self.text)
        return self.status, self.said


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, lab: str) -> Run:
    found = Run()
    monkeypatch.setattr(acceptance, "run_acceptance", found)
    return found


def test_acceptance_is_returned_with_its_text(run: Run) -> None:
    found = acceptance.accept("lab", Level.FULL, ignore_progress, print)
    assert run.options == ["--level=full"]
    assert (found.acceptance.user, found.text) == ("alice", run.text)


def test_failure_to_publish_is_said_and_changes_no_verdict(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(*_: object) -> list[str]:
        return ["login0: no response over SSH"]

    monkeypatch.setattr(acceptance, "publish_acceptance", fail)
    assert acceptance.accept("lab", Level.FULL, ignore_progress, print).acceptance.report.verdict == "passed"
    assert capsys.readouterr().out == "login0: no response over SSH\n"


def test_acceptance_of_phases_has_report_of_its_own(run: Run) -> None:
    run.file = paths.partial_acceptance("lab")
    acceptance.accept("lab", Level.SMOKE, ignore_progress, print, phases=["nccl", "gpu"], keep_going=True, user="bob")
    assert run.options == ["--phase=nccl", "--phase=gpu", "--level=smoke", "--keep-going", "--user=bob"]


def test_search_is_read_from_report_of_partial_run(run: Run) -> None:
    run.file = paths.partial_acceptance("lab")
    acceptance.accept("lab", Level.FULL, ignore_progress, print, bisect=True)
    assert run.options == ["--level=full", "--bisect"]


def test_earlier_acceptance_is_not_result_of_run(run: Run) -> None:
    paths.acceptance("lab").write_text(run.text)
    run.text, run.said = "", "no idle node"
    with pytest.raises(UndeterminedError, match="wrote no report; output: no idle node"):
        acceptance.accept("lab", Level.FULL, ignore_progress, print)


def test_acceptance_refuses_input_that_run_refuses(run: Run) -> None:
    run.status, run.said = 2, "--phase: unknown phase ncll"
    with pytest.raises(InputError, match="unknown phase ncll"):
        acceptance.accept("lab", Level.FULL, ignore_progress, print, phases=["ncll"])


def test_acceptance_interrupted_before_first_phase_is_undetermined(run: Run) -> None:
    run.interrupted = True
    with pytest.raises(UndeterminedError, match="output: interrupted before the first phase"):
        acceptance.accept("lab", Level.FULL, ignore_progress, print)


def test_acceptance_runs_jobs(run: Run) -> None:
    with pytest.raises(InputError, match="--level checks: runs no jobs") as refused:
        acceptance.accept("lab", Level.CHECKS, ignore_progress, print)
    assert "rackwright verify lab" in refused.value.hint and run.options == []
