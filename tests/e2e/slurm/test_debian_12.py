"""A lab of Debian 12: no MooseFS, which it does not package, and Slurm 22.05, which reads a changed list of nodes only at its start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.hang import HANG_SECONDS
from support.project import Project, clone
from support.waiting import wait_for

UP = 2400
"""Seconds; the first `up` builds the node image of Debian 12."""


def _declare(cluster: dict[str, Any]) -> None:
    cluster["target"]["os"] = "debian-12"
    del cluster["storage"]
    cluster["groups"]["login"]["roles"].remove("storage")


def _workers(count: int) -> Any:
    return lambda cluster: cluster["groups"]["worker"].update(count=count)


def _states(project: Project) -> list[str]:
    return project.ssh("login0", "sinfo --noheader --format %T").output.split()


@pytest.fixture(scope="module")
def twelve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a small lab of Debian 12, up."""
    project = clone(tmp_path_factory.mktemp("debian-12") / "checkout", like="lab-small")
    project.edit(_declare)
    try:
        project.run_checked("up", timeout=UP)
        yield project
        project.run_checked("destroy")
        assert project.leftovers() == []
    finally:
        project.remove()


def test_up_ends_verified(twelve: Project) -> None:
    assert twelve.report()["verdict"] == "passed", twelve.report()["totals"]
    assert twelve.ssh("login0", "sinfo --version").output.strip() == "slurm-wlm 22.05.8"


def test_second_up_changes_nothing(twelve: Project) -> None:
    said = twelve.run_checked("up")
    assert "no changes. " in said.output, said.end


def test_slurmd_that_systemd_started_is_no_difference(twelve: Project) -> None:
    """It receives its configuration after the start, as after each boot."""
    twelve.ssh("worker0", "systemctl restart slurmd")
    wait_for(lambda: _states(twelve), lambda states: states == ["idle"], timeout=HANG_SECONDS)
    scanned = twelve.rackwright("drift", twelve.stack)
    assert scanned.ok, scanned.end


def test_worker_joins_and_leaves_beside_a_running_job(twelve: Project) -> None:
    job = twelve.as_user("sbatch --parsable -w worker0 --output=/dev/null --wrap='sleep 600'").output.split()[-1]
    for count in (2, 1):
        twelve.edit(_workers(count))
        twelve.run_checked("up")
        assert twelve.report()["verdict"] == "passed"
        assert twelve.ssh("login0", "sinfo --noheader --Node --format %N").output.split() == ["worker0", "worker1"][:count]
        assert twelve.as_user(f"squeue -h -j {job} -o %T").output.strip() == "RUNNING"
    twelve.as_user("scancel -u alice")
