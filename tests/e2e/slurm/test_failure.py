"""Failures are reported with host, task and the decisive lines; they are recorded, and the next run continues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.project import Project

_TASK = """
- name: Refuse to go on
  ansible.builtin.command: sh -c 'echo the disk is full >&2; exit 9'
  when: node.name == 'worker0'
"""


@pytest.fixture
def broken(healthy: Project) -> Iterator[Project]:
    """Yield a checkout in which one role fails on one node."""
    tasks = healthy.folder / "roles/gpu/tasks/service.yml"
    written = tasks.read_text()
    tasks.write_text(written + _TASK)
    yield healthy
    tasks.write_text(written)


def test_failed_task_reports_host_task_and_output(broken: Project) -> None:
    said = broken.pulumi("up")
    assert not said.ok
    assert "worker0: gpu: Refuse to go on" in said.output and "the disk is full" in said.output, said.output
    assert "Traceback" not in said.output
    assert "ended with exit status 9: the disk is full" in said.output and "complete record of this run: `rackwright runs " in said.output
    assert broken.resources()["converge"]["outputs"]["converged"] is False


@pytest.fixture
def broken_controller(healthy: Project) -> Iterator[Project]:
    """Yield a checkout in which the controller fails in the first phase."""
    tasks = healthy.folder / "roles/base/tasks/service.yml"
    written = tasks.read_text()
    tasks.write_text(written + _TASK.replace("worker0", "login0"))
    yield healthy
    tasks.write_text(written)


def test_workers_are_not_reached_after_their_controller_failed(broken_controller: Project) -> None:
    said = broken_controller.pulumi("up")
    assert not said.ok and "login0: bootstrap: Refuse to go on" in said.output, said.output
    assert "worker0: not reached, because login0 failed in bootstrap" in said.output, said.output


def test_resources_only_refresh_keeps_failed_converge(broken: Project) -> None:
    """A plain Read clears the engine's record of the failure, and the next up does nothing."""

    def resources_only(cluster: dict[str, Any]) -> None:
        cluster["refresh_scope"] = "resources"

    broken.edit(resources_only)
    assert not broken.pulumi("up").ok
    broken.pulumi("refresh")
    again = broken.pulumi("up")
    assert not again.ok and "Refuse to go on" in again.output, again.output

    def everything(cluster: dict[str, Any]) -> None:
        del cluster["refresh_scope"]

    broken.edit(everything)


def test_next_up_continues_after_repair(lab: Project) -> None:
    lab.run_checked("up")
    assert lab.resources()["converge"]["outputs"]["converged"] is True
    assert lab.report()["verdict"] == "passed"


def test_stack_file_typo_is_one_finding(lab: Project) -> None:
    written = lab.stack_file.read_text()
    lab.stack_file.write_text(written.replace("count:", "cuont:", 1))
    try:
        said = lab.pulumi("preview")
        assert not said.ok and "cuont" in said.output and "did you mean" in said.output and "Traceback" not in said.output, said.output
    finally:
        lab.stack_file.write_text(written)
