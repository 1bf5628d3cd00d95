"""A worker added and removed: other nodes are not disturbed, and no running job is cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.project import Project

pytestmark = pytest.mark.essential


def _workers(count: int) -> Any:
    def change(cluster: dict[str, Any]) -> None:
        cluster["groups"]["worker"]["count"] = count

    return change


@pytest.fixture(scope="module")
def grown(lab: Project) -> Iterator[Project]:
    """Yield the stack with a third worker, added while a job runs on the first."""
    lab.job = lab.as_user("sbatch --parsable -w worker0 --output=/dev/null --wrap='sleep 600'").output.split()[-1]  # type: ignore[attr-defined]
    lab.before = lab.incarnations()  # type: ignore[attr-defined]
    lab.edit(_workers(3))
    lab.foretold = lab.run_checked("preview").output  # type: ignore[attr-defined]
    lab.run_checked("up")
    yield lab
    lab.as_user("scancel -u alice")
    lab.edit(_workers(2))
    lab.run_checked("up")


def test_new_worker_is_verified_and_runs_jobs(grown: Project) -> None:
    assert grown.as_user("srun -w worker2 --gres=gpu:8 hostname").output.strip() == "worker2"
    checks = [check for check in grown.report()["checks"] if check["node"] == "worker2"]
    assert len(checks) > 15 and {check["verdict"] for check in checks} <= {"passed", "skipped"}


def test_preview_announces_new_worker(grown: Project) -> None:
    assert "adds worker2, joins it to Slurm and verifies it (groups.worker.count)" in grown.foretold  # type: ignore[attr-defined]
    said = grown.rackwright("impact", grown.stack)
    assert said.ok and said.output.startswith("no changes: stack "), said.output


def test_scaling_keeps_existing_nodes(grown: Project) -> None:
    before = grown.before  # type: ignore[attr-defined]
    assert {name: life for name, life in grown.incarnations().items() if name in before} == before


def test_scaling_keeps_running_job(grown: Project) -> None:
    assert grown.as_user(f"squeue -h -j {grown.job} -o %T").output.strip() == "RUNNING"  # type: ignore[attr-defined]


def test_busy_worker_is_not_removed(grown: Project) -> None:
    job = grown.as_user("sbatch --parsable -w worker2 --output=/dev/null --wrap='sleep 600'").output.split()[-1]

    def shrink(cluster: dict[str, Any]) -> None:
        cluster["groups"]["worker"]["count"] = 2
        cluster["scheduler"]["drain_timeout"] = "2s"

    grown.edit(shrink)
    foretold = grown.rackwright("impact", grown.stack)
    assert foretold.ok and foretold.output.startswith("drains worker2, then removes it (groups.worker.count)"), foretold.output
    said = grown.pulumi("up")
    assert not said.ok and f"{job}" in said.output and "worker2 cannot be removed" in said.output, said.output
    assert "Traceback" not in said.output
    assert "worker2" in grown.incarnations()
    assert grown.as_user(f"squeue -h -j {job} -o %T").output.strip() == "RUNNING"
    grown.as_user(f"scancel {job}")
    # Later tests use the same lab, and their jobs end by themselves.
    grown.edit(lambda cluster: cluster["scheduler"].pop("drain_timeout"))
    grown.run_checked("up")
    assert "worker2" not in grown.incarnations()
    report = grown.report()
    assert report["verdict"] == "passed"
    assert {node["name"] for node in report["nodes"]} == {"login0", "worker0", "worker1", "storage0"}
    assert "worker2" not in grown.as_user("sinfo -N -h -o %N").output
