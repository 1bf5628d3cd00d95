"""Declared benchmarks of the distribution: `software.tools` installs them, and their phases run them as jobs of an ordinary user."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.project import Project


def declare_tools(description: dict[str, Any]) -> None:
    """Add fio and HPCC to a stack."""
    description["software"] = {"tools": ["fio", "hpcc"]}


@pytest.fixture(scope="module")
def equipped(lab: Project) -> Iterator[Project]:
    """Yield the lab with fio and HPCC on its nodes, without them in its stack file afterwards."""
    written = lab.stack_file.read_text()
    lab.edit(declare_tools)
    try:
        lab.run_checked("up", timeout=1200)
        yield lab
    finally:
        lab.stack_file.write_text(written)
        lab.run_checked("up", timeout=1200)


def test_declared_benchmarks_run_in_their_phases(equipped: Project) -> None:
    said = equipped.rackwright("acceptance", equipped.stack, "--phase", "file-io", "--phase", "hpcc")
    assert said.ok, said.end
    report = json.loads((equipped.home / equipped.stack / "acceptance.partial.json").read_text())
    phases = {phase["name"]: phase for phase in report["phases"] if phase["name"] in ("file_io", "hpcc")}
    assert {name: (phase["state"], phase["verdict"]) for name, phase in phases.items()} == {
        "file_io": ("ran", "passed"),
        "hpcc": ("ran", "passed"),
    }, said.output
    passed = {check["id"] for check in report["checks"] if check["verdict"] == "passed"}
    checks = ("file_io.blocks_are_right", "hpcc.results_are_right")
    assert {f"{check}[{node}]" for check in checks for node in ("worker0", "worker1")} <= passed, said.output
    left = equipped.ssh("worker0", "find /mnt/sharedfs -name 'rackwright-io-*' | head")
    assert left.ok and not left.output.strip(), left.output
