"""Run areas with pytest, and read from its report which areas passed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from areas.table import ROOT, Area, Pass, git

FINISHED = (0, 1)
"""Exit codes of pytest after all tests have run: passed, some failed."""


@dataclass
class Outcome:
    """How an area's tests ended; `seconds` is the sum of their durations."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    missing: int = 0
    """Tests that pytest collects and the report does not have: the run ended before them."""

    @property
    def is_pass(self) -> bool:
        """Return whether all tests ran and none failed."""
        return self.passed > 0 and self.failed == 0 and self.missing == 0

    def as_pass(self, commit: str) -> Pass:
        """Return the row of the record."""
        return Pass(commit, datetime.now(UTC).isoformat(" ", "minutes"), round(self.seconds), self.passed, self.skipped)


def run(areas: Sequence[Area], options: Sequence[str]) -> tuple[int, dict[str, Outcome]]:
    """Run the tests of areas in one pytest; return its exit code and the outcome of each area."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        tests = [test for area in areas for test in area.tests]
        reporting = ("-q", "-rs", "--durations=10", f"--junitxml={report}", "-o", "junit_family=xunit1")
        command = [sys.executable, "-m", "pytest", *reporting, *options]
        status = _wait(subprocess.Popen([*command, *tests], cwd=ROOT, env=_environment()))
        found = outcomes(areas, report.read_bytes() if report.exists() else b"<testsuites/>")
    if status not in FINISHED:
        for area in areas:
            outcome = found[area.name]
            outcome.missing = max(0, _collected(area) - outcome.passed - outcome.failed - outcome.skipped)
    return status, found


def _environment() -> dict[str, str]:
    environment = {**os.environ, "PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)
    return environment


def _collected(area: Area) -> int:
    """Return the number of tests of an area."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *area.tests]
    listed = subprocess.run(command, cwd=ROOT, env=_environment(), stdout=subprocess.PIPE, text=True, check=True).stdout
    return sum("::" in line for line in listed.splitlines())


def _wait(child: subprocess.Popen[bytes]) -> int:
    """Wait for pytest. Ctrl-C reaches pytest as well, which then takes time to remove what its tests created."""
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return child.wait()
    finally:
        signal.signal(signal.SIGINT, previous)


def outcomes(areas: Sequence[Area], report: bytes) -> dict[str, Outcome]:
    """Sum a JUnit report (family xunit1, which names each test's file) by area. An area without a test in it has not passed."""
    found = {area.name: Outcome() for area in areas}
    for case in ElementTree.fromstring(report).iter("testcase"):
        for area in areas:
            if area.holds(case.get("file", "")):
                _add(found[area.name], case)
    return found


def _add(outcome: Outcome, case: ElementTree.Element) -> None:
    outcome.seconds += float(case.get("time", "0"))
    endings = {child.tag for child in case}
    if endings & {"failure", "error"}:
        outcome.failed += 1
    elif "skipped" in endings:
        outcome.skipped += 1
    else:
        outcome.passed += 1


def tested_commit() -> str | None:
    """Return HEAD, or None if tracked files differ from it: a pass belongs to a commit."""
    changes = git("status", "--porcelain", "--untracked-files=no")
    head = git("rev-parse", "--short=12", "HEAD")
    dirty = [line for line in (changes or "").splitlines() if not line.endswith("tests/areas_passed.yml")]
    return head.strip() if head and changes is not None and not dirty else None
