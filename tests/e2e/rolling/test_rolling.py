"""Rolling update: changes that need nodes without jobs run on drained nodes, one after the other. Other jobs continue, a bad node stops it.

The lab's drivers are simulated: a node whose GPU record has another driver than the plan represents a node whose driver must be replaced.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.command import CommandResult
from support.project import Project

OLD = "550.54.15"
SERVED = "nvidia-smi --query-gpu=driver_version --format=csv,noheader | sort -u"


def set_old_driver(lab: Project, *nodes: str) -> None:
    """Give nodes an older driver than the plan's, with the health check's expectations of that time."""
    for node in nodes:
        files = "/var/lib/rackwright/gpus.json /etc/rackwright/health.json"
        said = lab.ssh(node, f"""sed -i 's/"driver": "[^"]*"/"driver": "{OLD}"/' {files} && {SERVED}""")
        assert said.output.split() == [OLD], said.output


def state(lab: Project, node: str) -> str:
    return lab.ssh("login0", f"scontrol --oneliner show node {node}").output


@pytest.fixture(scope="module")
def driver(lab: Project) -> str:
    """Return the plan's driver."""
    return lab.ssh("worker0", SERVED).output.strip()


@pytest.fixture(scope="module")
def rolled(lab: Project, driver: str) -> CommandResult:
    """Run an `up` that replaces the drivers of both workers while a job runs on the second."""
    set_old_driver(lab, "worker0", "worker1")
    submit = "sbatch --parsable -w worker1 --gres=gpu:2 --output=/dev/null --wrap='sleep 45'"
    lab.job = lab.as_user(submit).output.split()[-1]  # type: ignore[attr-defined]
    return lab.run_checked("up", "--refresh")


def test_workers_are_updated_one_after_the_other(lab: Project, rolled: CommandResult, driver: str) -> None:
    told = rolled.output
    assert f"rolling update of worker0: driver {OLD} is loaded, {driver} is declared" in told, told
    assert told.index("rolling worker0 (0 of 2 done)") < told.index("rolling worker1 (1 of 2 done)")
    assert [lab.ssh(node, SERVED).output.strip() for node in ("worker0", "worker1")] == [driver, driver]


def test_running_job_ends_on_its_node(lab: Project, rolled: CommandResult) -> None:
    rows = lab.ssh("login0", f"sacct -X -n -P -j {lab.job} -o state,nodelist,restarts,elapsedraw").output.split()  # type: ignore[attr-defined]
    assert len(rows) == 1, rows
    ended, node, restarts, seconds = rows[0].split("|")
    assert (ended, node, restarts) == ("COMPLETED", "worker1", "0") and int(seconds) >= 45


def test_updated_workers_run_jobs_and_pass_checks(lab: Project, rolled: CommandResult) -> None:
    assert sorted(lab.as_user("srun -N2 --gres=gpu:8 hostname").output.split()) == ["worker0", "worker1"]
    assert lab.report()["verdict"] == "passed"


@pytest.fixture(scope="module")
def broken(lab: Project, rolled: CommandResult) -> Iterator[CommandResult]:
    """Yield an `up` whose canary has lost a GPU; the next one repairs the rest."""
    set_old_driver(lab, "worker0", "worker1")
    lab.ssh("worker0", "rackwright-gpu-fault missing 3")
    yield lab.pulumi("up", "--refresh")
    lab.ssh("worker0", "rackwright-gpu-fault clear")
    lab.run_checked("up", "--refresh")
    assert lab.report()["verdict"] == "passed"


def test_failed_canary_stays_drained_with_reason(lab: Project, broken: CommandResult) -> None:
    assert not broken.ok and "gpu.count_matches_plan: expected 8, found 7" in broken.output, broken.output
    assert "DRAIN" in state(lab, "worker0") and "Reason=rackwright: gpu.count_matches_plan: expected 8, found 7" in state(lab, "worker0")


def test_failed_canary_leaves_other_workers_running(lab: Project, broken: CommandResult) -> None:
    assert "worker0: the rolling update stopped here with this batch drained; not touched: worker1" in broken.output, broken.output
    assert lab.ssh("worker1", SERVED).output.strip() == OLD
    assert "DRAIN" not in state(lab, "worker1")


def test_rolling_update_command_updates_one_worker(lab: Project, rolled: CommandResult) -> None:
    said = lab.rackwright("rolling-update", lab.stack, "--nodes", "worker1")
    assert said.ok and said.output.strip().endswith("rolled 1 of 1: worker1"), said.output
    assert "DRAIN" not in state(lab, "worker1")


def test_rolling_update_refuses_to_reboot_containers(lab: Project, rolled: CommandResult) -> None:
    said = lab.rackwright("rolling-update", lab.stack, "--reboot")
    assert said.status == 2 and "they have no kernel of their own" in said.output, said.output
