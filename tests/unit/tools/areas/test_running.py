"""An area passed when its tests ran and none failed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from areas import __main__ as command
from areas import running
from areas.running import Outcome, outcomes
from areas.table import Area, read_passes

AREAS = [Area("drift", ["tests/e2e/drift"], []), Area("aws", ["tests/e2e/aws"], [])]
REPORT = b"""<testsuites><testsuite>
  <testcase file="tests/e2e/drift/test_drift.py" name="a" time="1.5"/>
  <testcase file="tests/e2e/drift/test_drift.py" name="b" time="2.0"><skipped message="no browser"/></testcase>
  <testcase file="tests/e2e/aws/test_stacks.py" name="c" time="3.0"/>
  <testcase file="tests/e2e/aws/test_stacks.py" name="d" time="1.0"><failure message="x"/></testcase>
  <testcase file="tests/e2e/aws/test_stacks.py" name="e" time="1.0"><error message="x"/></testcase>
</testsuite></testsuites>"""


def test_report_is_summed_by_area() -> None:
    found = outcomes(AREAS, REPORT)
    assert found == {"drift": Outcome(1, 0, 1, 3.5), "aws": Outcome(1, 2, 0, 5.0)}
    assert found["drift"].is_pass and not found["aws"].is_pass


def test_area_whose_tests_did_not_run_has_not_passed() -> None:
    assert not outcomes(AREAS, b"<testsuites/>")["drift"].is_pass
    assert not Outcome(passed=0, skipped=3).is_pass


@pytest.mark.parametrize(
    ("status", "commit"),
    [("", "abc"), (" M tests/areas_passed.yml\n", "abc"), (" M infra/rackwright/errors.py\n", None), (None, None)],
    ids=["clean", "the record itself", "a product file", "no git"],
)
def test_pass_is_recorded_for_what_was_committed_only(monkeypatch: pytest.MonkeyPatch, status: str | None, commit: str | None) -> None:
    monkeypatch.setattr(running, "git", lambda *arguments: status if arguments[0] == "status" else "abc\n")
    assert running.tested_commit() == commit


def test_interrupted_run_records_the_areas_that_ran_to_their_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    outcome = {"drift": Outcome(passed=3), "hosts": Outcome(passed=1, failed=1), "aws": Outcome(passed=2, missing=1)}
    monkeypatch.setattr(command, "RECORD", tmp_path / "record.yml")
    monkeypatch.setattr(command, "tested_commit", lambda: "abc")
    monkeypatch.setattr(command, "run", lambda areas, options: (2, outcome))
    assert command.run_areas(["drift", "hosts", "aws"], []) == 1
    assert list(read_passes(tmp_path / "record.yml")) == ["drift"]


@pytest.mark.parametrize(("status", "missing"), [(1, 0), (2, 4), (-9, 4)], ids=["failed", "interrupted", "killed"])
def test_tests_that_an_interrupted_run_left_out_are_counted(monkeypatch: pytest.MonkeyPatch, status: int, missing: int) -> None:
    monkeypatch.setattr(running, "_wait", lambda child: status)
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: None)
    monkeypatch.setattr(running, "_collected", lambda area: 4)
    found = running.run(AREAS, ())[1]
    assert {outcome.missing for outcome in found.values()} == {missing}


def test_tests_of_an_area_are_those_that_pytest_collects() -> None:
    assert running._collected(Area("areas", ["tests/unit/tools/areas/test_table.py::test_other_targets_exist"], [])) == 1
