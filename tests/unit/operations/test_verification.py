"""Verification of a running stack: arguments of the run, its report and its errors, and the last verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rackwright.catalog.checks import Level
from rackwright.drivers.check_runner import RunOutcome
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.operations import verification
from rackwright.operations.verification import RecordedReport
from rackwright.report.document import Report

from .conftest import ignore_progress, report


class Run:
    """The run of the checks: its arguments, and its result."""

    def __init__(self) -> None:
        self.arguments: dict[str, Any] = {}
        self.status, self.said, self.text = 0, "", report()
        self.interrupted = False

    async def __call__(self, **arguments: Any) -> RunOutcome:
        self.arguments = arguments
        if self.interrupted:
            raise KeyboardInterrupt
        file = paths.report("lab")
        if self.text:
            file.write_text(self.text)
        return RunOutcome(self.status, file, self.said)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, lab: str) -> Run:
    found = Run()
    monkeypatch.setattr(verification, "run_checks", found)
    return found


def verify(*nodes: str, level: Level = Level.CHECKS) -> RecordedReport:
    return verification.verify("lab", level, nodes, ignore_progress, print)


def test_verify_returns_report_with_its_text(run: Run) -> None:
    run.status, run.text = 1, report("failed")
    found = verify()
    assert (found.report.verdict, found.text) == ("failed", run.text)


def test_failure_to_publish_is_said_and_changes_no_verdict(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(inventory: Path, found: Report) -> list[str]:
        assert (inventory, found.verdict) == (paths.inventory("lab"), "passed")
        return ["login0: cannot write the metrics of this run (verify): no response over SSH"]

    monkeypatch.setattr(verification, "publish_verification", fail)
    assert verify().report.verdict == "passed"
    assert capsys.readouterr().out == "login0: cannot write the metrics of this run (verify): no response over SSH\n"


def test_verify_checks_level_and_nodes_of_stack(run: Run) -> None:
    verify("worker1", level=Level.SMOKE)
    assert (run.arguments["level"], list(run.arguments["nodes"])) == ("smoke", ["worker1"])
    assert (run.arguments["inventory"], run.arguments["results"]) == (paths.inventory("lab"), paths.results("lab"))


def test_verify_refuses_input_that_checks_refuse(run: Run) -> None:
    run.status, run.said = 2, "--nodes: unknown node worker9\n"
    with pytest.raises(InputError, match=r"^--nodes: unknown node worker9\Z"):
        verify("worker9")


@pytest.mark.parametrize(("said", "shown"), [("", "none"), ("ImportError: no pytest\n", "ImportError: no pytest")])
def test_run_without_report_is_undetermined(run: Run, said: str, shown: str) -> None:
    run.status, run.said, run.text = 3, said, ""
    with pytest.raises(UndeterminedError, match=rf"^stack lab: the checks wrote no report; output: {shown}\Z"):
        verify()


def test_interrupted_verification_is_undetermined(run: Run) -> None:
    run.interrupted = True
    with pytest.raises(UndeterminedError, match="interrupted: checks that did not run are recorded as unknown"):
        verify()


def test_stack_that_is_not_up_is_not_checked(run: Run) -> None:
    paths.inventory("lab").unlink()
    with pytest.raises(InputError, match="is not up"):
        verify()
    assert run.arguments == {}


@pytest.mark.parametrize(
    ("verdict", "started", "last"),
    [
        ("failed", "2026-11-21T10:05:00+00:00", "failed"),
        ("failed", "2026-11-21T09:55:00+00:00", "passed"),
        ("passed", "2026-11-21T10:05:00+00:00", "passed"),
    ],
)
def test_last_report_is_later_refresh_that_failed(lab: str, verdict: str, started: str, last: str) -> None:
    paths.refresh_report(lab).parent.mkdir()
    paths.report(lab).write_text(report())
    paths.refresh_report(lab).write_text(report(verdict, started))
    found = verification.last_report(lab)
    assert found.report.verdict == last
    assert found.text == (paths.refresh_report(lab) if last == "failed" else paths.report(lab)).read_text()


def test_last_report_applies_to_plan_of_inventory(lab: str) -> None:
    paths.report(lab).write_text(report())
    assert not verification.last_report(lab).plan_changed
    paths.report(lab).write_text(report(plan="0" * 12))
    assert verification.last_report(lab).plan_changed


def test_report_beside_unreadable_inventory_is_of_another_plan(lab: str) -> None:
    paths.report(lab).write_text(report())
    paths.inventory(lab).unlink()
    assert verification.last_report(lab).plan_changed
