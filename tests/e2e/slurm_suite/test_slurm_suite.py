"""Slurm's own test suite gives the tracked results in a lab; `make slurm-suite`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from slurm_suite.expectations import read_table
from support.project import ROOT, Project

TESTS = os.environ.get("RACKWRIGHT_SLURM_SUITE", "").split()
"""Tests to run, such as `1.10` or `17.*`; all selected ones if empty."""


def test_suite_gives_expected_results(lab: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """The report is printed in any case: it also lists what is not selected and what never ran."""
    logs = lab.folder.parent / "logs"
    command = [sys.executable, "-m", "slurm_suite", lab.stack, "--logs", str(logs), *(["--tests", *TESTS] if TESTS else [])]
    environment = {**lab.environment, "PYTHONPATH": f"{ROOT / 'tools'}:{ROOT / 'infra'}"}
    with capsys.disabled():
        print(f"\n{len(TESTS) or len(read_table().selected)} tests or series; logs: {logs}")
        ended = subprocess.run(command, cwd=lab.folder, env=environment, stdin=subprocess.DEVNULL, check=False)
    assert ended.returncode == 0
    if TESTS:
        pytest.skip("only chosen tests ran, as expected: no pass of the area")
