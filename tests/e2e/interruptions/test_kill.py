"""Runs that are killed leave nothing that the next plain `pulumi up` does not heal, and no process behind."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.hang import HANG_SECONDS, wait_until
from support.processes import list_processes, read_until
from support.project import Project, clone


def _third_worker(present: bool) -> Any:
    def change(cluster: dict[str, Any]) -> None:
        cluster["groups"]["worker"]["count"] = 3 if present else 2

    return change


@pytest.mark.parametrize(
    ("moment", "blow", "whole_group"),
    [
        ("worker2 creating", signal.SIGKILL, False),
        pytest.param("bootstrap:", signal.SIGKILL, True, marks=pytest.mark.essential),
        ("scheduler:", signal.SIGKILL, False),
        ("bootstrap:", signal.SIGINT, True),
    ],
)
def test_up_repairs_killed_up(healthy: Project, moment: str, blow: signal.Signals, whole_group: bool) -> None:
    healthy.edit(_third_worker(True))
    child = healthy.start(healthy.pulumi_command("up"))
    read_until(child, moment)
    (os.killpg if whole_group else os.kill)(child.pid, blow)
    child.communicate(timeout=HANG_SECONDS)
    wait_until(lambda: not list_processes(healthy), lambda: "\n".join(list_processes(healthy)))
    said = healthy.run_checked("up")
    assert healthy.report()["verdict"] == "passed"
    assert "worker2" in healthy.incarnations()
    assert "pending" not in said.output.lower(), said.output
    healthy.edit(_third_worker(False))
    after = healthy.run_checked("up")
    assert "warning" not in after.output.lower(), after.output


def test_concurrent_up_reports_one_clear_error(healthy: Project) -> None:
    healthy.edit(_third_worker(True))
    first = healthy.start(healthy.pulumi_command("up"))
    read_until(first, "creating")
    second = healthy.pulumi("up")
    assert not second.ok and "lock" in second.output and "Traceback" not in second.output, second.output
    output, _ = first.communicate(timeout=HANG_SECONDS)
    assert first.returncode == 0, output
    healthy.edit(_third_worker(False))
    healthy.run_checked("up")


@pytest.fixture
def unrecorded(tmp_path: Path) -> Iterator[Project]:
    """Yield a copy whose podman delays its result: a kill leaves a container that exists and is not on record."""
    project = clone(tmp_path / "checkout")
    real, slow = shutil.which("podman"), tmp_path / "bin" / "podman"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\n{real} "$@"\nstatus=$?\ncase " $* " in *" create "*) sleep 3 ;; esac\nexit $status\n')
    slow.chmod(0o755)
    project.environment["PATH"] = f"{slow.parent}:{project.environment['PATH']}"
    yield project
    project.remove()
    assert project.leftovers() == []


def test_destroy_removes_unrecorded_container(unrecorded: Project) -> None:
    child = unrecorded.start(unrecorded.pulumi_command("up"))
    wait_until(lambda: len(unrecorded.leftovers()) == 5, lambda: f"made so far: {unrecorded.leftovers()}")
    os.kill(child.pid, signal.SIGKILL)
    output, _ = child.communicate(timeout=HANG_SECONDS)
    assert len(unrecorded.leftovers()) == 5, output
    unrecorded.run_checked("destroy")
    assert unrecorded.leftovers() == []
