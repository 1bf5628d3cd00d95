"""`rackwright acceptance`: the phases run as jobs of an ordinary user, and each fault is named with its node and what to do."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from support.command import CommandResult
from support.hang import HANG_SECONDS, wait_until
from support.project import ROOT, Project

SMOKE = ("slurm_health", "shared_file_system", "task_placement", "gpu_allocation", "infiniband")


def run_acceptance(lab: Project, *options: str) -> tuple[CommandResult, dict[str, Any]]:
    """Run an acceptance; return its result and its report."""
    said = lab.rackwright("acceptance", lab.stack, *options)
    name = "acceptance.partial.json" if "--phase" in options else "acceptance.json"
    return said, json.loads((lab.home / lab.stack / name).read_text())


def failed_checks(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return checks that did not pass, by id."""
    return {check["id"]: check for check in report["checks"] if check["verdict"] in ("failed", "unknown")}


def test_acceptance_of_lab_passes_as_ordinary_user(lab: Project) -> None:
    said, report = run_acceptance(lab)
    assert said.ok, said.end
    phases = {phase["name"]: phase for phase in report["phases"]}
    assert [phases[name]["verdict"] for name in SMOKE] == ["passed"] * 5, said.output
    assert {phase["verdict"] for phase in phases.values()} <= {"passed", "skipped"}, said.output
    speeds = [phases[name] for name in ("nccl", "gpu", "rdma") if name in phases]
    assert all((phase["state"], phase["reason"]) == ("skipped", "simulated-hardware") for phase in speeds), said.output
    assert "passed" in said.output and "simulated" in said.output and report["results"] in said.output.replace("\n", "")
    ids = ",".join(job["id"] for phase in report["phases"] for job in phase["jobs"])
    users = lab.ssh("login0", f"sacct -nXP -j {ids} -o User,State").output.split()
    assert set(users) == {"alice|COMPLETED"} and len(users) == len(ids.split(",")), users


def test_acceptance_stores_results_on_shared_file_system(lab: Project) -> None:
    _, report = run_acceptance(lab, "--phase", "gpu-allocation")
    folder = f"{report['results']}/04-gpu-allocation"
    assert folder.startswith("/mnt/sharedfs/validation/results/infra-smoke-")
    meta = json.loads(lab.ssh("storage0", f"cat {folder}/meta.json").output)
    assert meta["user"] == "alice" and meta["nodes"] == ["worker0", "worker1"]
    assert meta["versions"]["nodes"]["worker0"]["driver"] and meta["versions"]["slurm"]
    assert all(job["status"] == 0 and job["command"][0] == "srun" for job in meta["jobs"])
    assert not any("SECRET" in name or "TOKEN" in name or "JWT" in name for name in meta["environment"])
    listed = lab.ssh("worker1", f"ls {folder} {report['results']}/programs").output.split()
    assert {"meta.json", "stdout", "stderr", "result.json", "task.py", "shell.py"} <= set(listed)


FAULTS = {
    "gpu.count_matches_plan": ("rackwright-gpu-fault missing 3", "rackwright-gpu-fault clear"),
    "storage.is_mounted": ("umount -l /mnt/sharedfs", "systemctl restart mnt-sharedfs.mount"),
}
"""Faults that a node detects on its own: the command that creates each, and the one that removes it."""


@pytest.fixture(params=FAULTS)
def unfit(healthy: Project, request: pytest.FixtureRequest) -> Iterator[tuple[Project, str]]:
    """Yield a worker with a fault that its health check has found, and the check that reports it."""
    broken, mended = FAULTS[request.param]
    wait_until(lambda: is_idle(healthy), lambda: "worker1 is not idle")
    healthy.ssh("worker1", f"{broken}; rackwright-node-health")
    yield healthy, request.param
    healthy.ssh("worker1", f"{mended} && rackwright-node-health")
    wait_until(lambda: is_idle(healthy), lambda: "worker1 is not idle")


def test_acceptance_reports_unfit_worker(unfit: tuple[Project, str]) -> None:
    """The worker has drained itself, so that the suite stops at its first phase; worker0 is not blamed."""
    lab, check = unfit
    said, report = run_acceptance(lab)
    found = failed_checks(report)
    assert {one["node"] for one in found.values()} == {"worker1"}, said.output
    assert any(check in one["found"] and one["verdict"] == "failed" for one in found.values()), said.output
    assert said.status == 3 and report["verdict"] == "unknown", said.output  # the user of its job is unknown
    states = {phase["name"]: phase["state"] for phase in report["phases"]}
    assert (states["slurm_health"], states["shared_file_system"]) == ("ran", "not-run")


def test_acceptance_skips_busy_node(healthy: Project) -> None:
    healthy.ssh("worker1", "touch /run/held")
    held = "while [ -e /run/held ]; do sleep 0.2; done"
    job = healthy.as_user(f"sbatch --parsable --nodelist=worker1 --output=/dev/null --wrap='{held}'").output.split()[-1]
    try:
        # slurmctld schedules batch jobs on a node that just returned at its next turn (sched_interval, 60 s).
        wait_until(lambda: "worker1" in healthy.as_user("squeue -h -t R -o %N").output, lambda: "no job runs on worker1")
        said, report = run_acceptance(healthy, "--level", "smoke")
        assert said.ok, said.end
        busy = [check for check in report["checks"] if check["reason"] == "node-busy"]
        # A check that needs two nodes is skipped on the other node, too.
        assert {check["id"] for check in busy if check["node"] != "worker1"} == {"task_placement.two_tasks_on_two_nodes[worker0]"}, (
            said.output
        )
        assert {check["subject"] for check in busy} >= {"slurm_health", "task_placement", "gpu_allocation"}, said.output
        assert "node-busy" in said.output and "RUNNING" in healthy.as_user(f"squeue -h -j {job} -o %T").output
    finally:
        healthy.ssh("worker1", "rm /run/held")  # the job ends on its own: a cancelled one holds its node for half a minute (KillWait)
        wait_until(lambda: "idle" in healthy.ssh("login0", "sinfo -h -n worker1 -o %T").output, lambda: "worker1 is not idle")


@pytest.fixture
def stuck(healthy: Project) -> Iterator[Project]:
    """Yield a worker whose nvidia-smi hangs, and a job of the same user that must stay untouched."""
    healthy.ssh("worker1", "printf '#!/bin/sh\\nexec sleep 100\\n' > /usr/local/sbin/nvidia-smi && chmod 755 /usr/local/sbin/nvidia-smi")
    healthy.as_user("sbatch --hold --job-name=somebodys --output=/dev/null --wrap='true'")
    yield healthy
    healthy.as_user("scancel --name=somebodys")
    healthy.ssh("worker1", "rm /usr/local/sbin/nvidia-smi && rackwright-node-health")


def test_interrupted_acceptance_cancels_only_its_jobs(stuck: Project) -> None:
    names = lambda: stuck.as_user("squeue -h -o %j").output.split()  # noqa: E731
    child = stuck.start([str(ROOT / ".venv/bin/python"), "-m", "rackwright.cli.main", "acceptance", stuck.stack, "--level", "smoke"])
    try:
        wait_until(lambda: any("all-" in name for name in names()), lambda: "no job of the acceptance was queued")
        child.send_signal(signal.SIGINT)
        output, _ = child.communicate(timeout=HANG_SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode == 3, output
    assert "interrupted" in output and "Traceback" not in output, output
    wait_until(lambda: names() == ["somebodys"], lambda: f"the queue holds {names()}")


def test_unknown_phase_is_refused(lab: Project) -> None:
    said = lab.rackwright("acceptance", lab.stack, "--phase", "slurm-helth")
    assert said.status == 2 and "did you mean `slurm_health`?" in said.output, said.output


def is_idle(lab: Project) -> bool:
    """Return whether worker1 is idle and responds: for a moment after a requeued job it does not (`idle*`)."""
    return lab.ssh("login0", "sinfo -h -n worker1 -o %T").output.strip() == "idle"


def test_acceptance_prints_json_report(lab: Project) -> None:
    said = subprocess.run(
        [str(ROOT / ".venv/bin/python"), "-m", "rackwright.cli.main", "acceptance", lab.stack, "--phase", "slurm_health", "--json"],
        cwd=lab.folder,
        env=lab.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    report = json.loads(said.stdout)
    assert (said.returncode, report["schema"], report["verdict"]) == (0, "rackwright.acceptance/2", "passed")
