"""Power saving in the lab: an idle worker's container stops, no scan reports that as drift, and a job or a scan resumes the node."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.hang import HANG_SECONDS
from support.project import Project, clone

SAVING = {"suspend_time": "60s", "suspend_timeout": "15s", "resume_timeout": "30s"}


def _status(project: Project, node: str) -> str:
    command = ["podman", "container", "inspect", "--format", "{{.State.Status}}", f"{project.stack}-{node}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _power(project: Project, node: str) -> str:
    said = project.ssh("login0", f"scontrol --oneliner show node {node}")
    return next(word for word in said.output.split() if word.startswith("State="))


def _agents(project: Project) -> list[str]:
    """Return the process numbers of the stack's power agents."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if "rackwright.provider.lab.power_agent" in words and project.stack in words:
            found.append(folder.name)
    return found


def _falls_asleep(project: Project, node: str = "worker0", seconds: float = HANG_SECONDS) -> None:
    """Wait until the container has stopped and Slurm counts the node as powered down."""
    deadline = time.monotonic() + seconds
    while _status(project, node) != "exited" or "POWERED_DOWN" not in _power(project, node):
        assert time.monotonic() < deadline, f"{node}: {_status(project, node)}, {_power(project, node)}\n{_log(project)}"
        time.sleep(1)


def _log(project: Project) -> str:
    return (project.home / project.stack / "power.log").read_text()


@pytest.fixture(scope="module")
def saving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a small stack with power saving, up and verified."""
    project = clone(tmp_path_factory.mktemp("power") / "checkout", like="lab-small")
    project.edit(lambda cluster: cluster["scheduler"].update(power_saving=dict(SAVING)))
    try:
        project.run_checked("up", timeout=2400)
        yield project
    finally:
        for pid in _agents(project):
            subprocess.run(["kill", pid], check=False)
        project.remove()
    assert project.leftovers() == []


def test_idle_worker_stops_and_up_changes_nothing(saving: Project) -> None:
    assert saving.report()["verdict"] == "passed"
    lives = saving.incarnations()
    _falls_asleep(saving)
    said = saving.run_checked("up")
    assert "no changes. " in said.output and "updated" not in said.output, said.output
    assert (saving.incarnations(), _status(saving, "worker0")) == (lives, "exited")


def test_refresh_resumes_worker_and_finds_nothing(saving: Project) -> None:
    lives = saving.incarnations()
    assert _status(saving, "worker0") == "exited"
    said = saving.run_checked("refresh")
    assert "warning" not in said.output and "updated" not in said.output, said.output
    assert (saving.incarnations(), _status(saving, "worker0")) == (lives, "running")
    assert _power(saving, "worker0") == "State=IDLE"


def test_drift_scan_resumes_worker_and_finds_nothing(saving: Project) -> None:
    _falls_asleep(saving)
    said = saving.rackwright("drift", saving.stack)
    assert said.ok, said.end + _log(saving)
    assert _status(saving, "worker0") == "running", "a suspended node has no result, so the scan must resume it"


def test_job_resumes_worker(saving: Project) -> None:
    _falls_asleep(saving)
    said = saving.as_user("srun --gres=gpu:2 hostname")
    assert said.ok and said.output.splitlines()[-1] == "worker0", said.output + _log(saving)
    said = saving.run_checked("up")
    assert "no changes. " in said.output, said.output


def test_verify_resumes_worker(saving: Project) -> None:
    _falls_asleep(saving)
    said = saving.rackwright("verify", saving.stack, "--level", "smoke")
    assert said.ok, said.end + _log(saving)


def test_drained_worker_is_not_suspended(saving: Project) -> None:
    """A broken node that is powered off would return as if it were healthy."""
    saving.ssh("login0", "scontrol update NodeName=worker0 State=DRAIN Reason='bad disk'")
    time.sleep(80)
    assert (_status(saving, "worker0"), _power(saving, "worker0")) == ("running", "State=IDLE+DRAIN")
    saving.ssh("login0", "scontrol update NodeName=worker0 State=RESUME")


def test_up_resumes_worker_and_restarts_agent(saving: Project) -> None:
    _falls_asleep(saving)
    for pid in _agents(saving):
        subprocess.run(["kill", "-9", pid], check=True)
    saving.edit(lambda cluster: cluster["scheduler"]["power_saving"].update(suspend_time="70s"))
    saving.run_checked("up")
    assert len(_agents(saving)) == 1
    assert saving.report()["verdict"] == "passed"
    assert saving.as_user("srun hostname").output.splitlines()[-1] == "worker0"


def test_suspended_worker_is_removed_and_recreated(saving: Project) -> None:
    life = saving.incarnations()["worker0"]

    def workers(count: int) -> None:
        saving.edit(lambda cluster: cluster["groups"]["worker"].update(count=count))
        saving.run_checked("up")

    workers(2)
    _falls_asleep(saving, "worker1")
    workers(1)
    assert _status(saving, "worker1") == "" and set(saving.incarnations()) == {"login0", "worker0"}
    _falls_asleep(saving)
    subprocess.run(["podman", "rm", "--force", "--time", "0", f"{saving.stack}-worker0"], check=True, capture_output=True)
    saving.run_checked("up", "--refresh")
    assert saving.incarnations()["worker0"] != life
    assert saving.report()["verdict"] == "passed"


def test_disabling_power_saving_resumes_workers(saving: Project) -> None:
    _falls_asleep(saving)
    saving.edit(lambda cluster: cluster["scheduler"].pop("power_saving"))
    saving.run_checked("up")
    assert (_status(saving, "worker0"), _power(saving, "worker0"), _agents(saving)) == ("running", "State=IDLE", [])
    assert not (saving.home / saving.stack / "power.log").exists()
    saving.edit(lambda cluster: cluster["scheduler"].update(power_saving=dict(SAVING)))
    saving.run_checked("up")


def test_destroy_leaves_no_container_process_or_file(saving: Project) -> None:
    _falls_asleep(saving)
    saving.run_checked("destroy")
    assert (saving.leftovers(), _agents(saving)) == ([], [])
    assert not (saving.home / saving.stack).exists()
