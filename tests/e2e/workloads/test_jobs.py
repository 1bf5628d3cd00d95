"""`rackwright jobs --suspicious` in a lab: a training run with a stopped and a slowed rank, jobs that sleep, and one in stalled storage.

Other work on the machine may take the CPU of a rank: `no CPU` is a true finding then, and no test counts on its absence.
"""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.project import Project

from rackwright.report.schemas import schema_errors

MOST = 300.0
"""Seconds after which a state counts as absent."""
SLOW = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --exclusive --mem=0 --time=10 --output=/mnt/sharedfs/slow.txt
export PYTHONPATH=$(ls -td /mnt/sharedfs/validation/results/train-*/ | head -n 1)program PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
export GLOO_SOCKET_IFNAME=eth0
cat > /mnt/sharedfs/slow.py <<'X'
from rackwright.workloads.training import compat
import time, torch, torch.distributed as ranks
ranks.init_process_group("gloo")
a = torch.randn(400, 400)
while True:
    for _ in range(10):
        a = torch.tanh(a @ a)
    if ranks.get_rank() == 1:
        time.sleep(0.2)
    ranks.all_reduce(torch.ones(200000))
X
srun python3 -m rackwright.workloads.training.launch --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d \\
    --rdzv-endpoint=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1):29500 --rdzv-id=$SLURM_JOB_ID /mnt/sharedfs/slow.py
"""
"""A job whose second rank sleeps in each step. It has the training program of an earlier run."""


def suspicious(lab: Project, *options: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code of the command, and its jobs."""
    said = lab.rackwright("jobs", lab.stack, "--suspicious", "--json", *options)
    assert "{" in said.output, said.end
    document = json.loads(said.output[said.output.index("{") :])
    assert schema_errors("jobs", document) == []
    return said.status, document["jobs"]


def findings(job: dict[str, Any]) -> list[tuple[str, int | None, str]]:
    """Return kind, rank and node of each finding that the load of the machine does not cause."""
    return [(one["kind"], one["rank"], one["node"]) for one in job["findings"] if one["kind"] != "no CPU"]


def until(lab: Project, holds: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """Return the jobs when a condition holds: a rank that starts or restarts is no state to judge."""
    deadline = time.monotonic() + MOST
    while not holds(jobs := suspicious(lab)[1]):
        assert time.monotonic() < deadline, json.dumps(jobs, indent=1)
    return jobs


def ranks(jobs: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return the ranks of torchrun by number; before it has started them, the tasks of srun are the ranks."""
    return {one["rank"]: one for one in jobs[0]["ranks"] if one["source"] == "RANK"} if jobs else {}


@pytest.fixture
def submit(lab: Project) -> Iterator[Callable[[str], str]]:
    """Submit a script as the user; cancel it after the test."""
    submitted: list[str] = []

    def begin(script: str) -> str:
        text = base64.b64encode(script.encode()).decode()
        said = lab.as_user(f"echo {text} | base64 -d > /mnt/sharedfs/job.sh && sbatch --parsable /mnt/sharedfs/job.sh")
        assert said.ok, said.end
        submitted.append(said.output.strip().splitlines()[-1])
        return submitted[-1]

    yield begin
    for job in submitted:
        lab.as_user(f"scancel {job}")
    deadline = time.monotonic() + MOST
    while submitted and lab.ssh("login0", "squeue -h").output.strip():
        assert time.monotonic() < deadline, "a job was not cancelled"
        time.sleep(1)


def test_undisturbed_and_stopped_rank(lab: Project, training: subprocess.Popen[str]) -> None:
    jobs = until(lab, lambda jobs: set(ranks(jobs)) == {0, 1})
    assert [one["kind"] for one in jobs[0]["findings"] if one["kind"] in ("stopped", "hung", "rank missing", "idle allocation")] == []
    seen = ranks(jobs)
    assert {seen[number]["node"] for number in (0, 1)} == {"worker0", "worker1"}
    assert jobs[0]["undetermined"] == [], "what processes of users wait for is known to root of a container"
    assert any("futex" in wait for one in seen.values() for wait in one["waits"])
    assert lab.ssh(seen[1]["node"], f"kill -STOP {seen[1]['pid']}").ok
    try:
        code, jobs = suspicious(lab)
        said = lab.rackwright("jobs", lab.stack, "--suspicious")
    finally:
        lab.ssh(seen[1]["node"], f"kill -CONT {seen[1]['pid']}")
    assert (code, findings(jobs[0])) == (1, [("stopped", 1, seen[1]["node"])])
    assert jobs[0]["findings"][0]["pid"] == seen[1]["pid"] and "100%" in jobs[0]["findings"][0]["evidence"].replace("99%", "100%")
    assert said.status == 1 and f"stopped: rank 1 on {seen[1]['node']} (pid {seen[1]['pid']})" in said.output, said.end


def test_slowed_rank_is_named(lab: Project, training: subprocess.Popen[str]) -> None:
    """Stopped for 100 of every 150 ms, as a noisy neighbour or a throttled control group would."""
    seen = ranks(until(lab, lambda jobs: set(ranks(jobs)) == {0, 1}))
    pulses = f"while kill -STOP {seen[0]['pid']}; do sleep 0.1; kill -CONT {seen[0]['pid']}; sleep 0.05; done"
    assert lab.ssh(seen[0]["node"], f"systemd-run --collect --unit slow-rank sh -c '{pulses}'").ok
    try:
        code, jobs = suspicious(lab)
    finally:
        lab.ssh(seen[0]["node"], f"systemctl stop slow-rank; kill -CONT {seen[0]['pid']}")
    assert (code, findings(jobs[0])) == (1, [("stopped", 0, seen[0]["node"])])
    assert "do_signal_stop" in jobs[0]["findings"][0]["evidence"]


def test_sleeping_rank_is_straggler(lab: Project, submit: Callable[[str], str]) -> None:
    job = submit(SLOW)
    jobs = until(lab, lambda jobs: set(ranks(jobs)) == {0, 1} and any(one["kind"] == "straggling" for one in jobs[0]["findings"]))
    assert [one["job"] for one in jobs] == [job]
    (found,) = [one for one in jobs[0]["findings"] if one["kind"] == "straggling"]
    assert found["rank"] == 1 and "sleeps" in found["evidence"] and "nanosleep" in found["evidence"]


def test_job_that_sleeps_is_idle(lab: Project, submit: Callable[[str], str]) -> None:
    job = submit("#!/bin/bash\n#SBATCH --time=10 --output=/dev/null\nsleep 600")
    jobs = until(lab, lambda jobs: bool(jobs) and findings(jobs[0]) == [("idle allocation", None, "")])
    assert [one["job"] for one in jobs] == [job] and jobs[0]["undetermined"] == []
    listed = lab.rackwright("jobs", lab.stack, "--job", job)
    assert listed.ok and "alice" in listed.output
    assert lab.rackwright("jobs", lab.stack, "--job", "99999").status == 2


def test_job_in_stalled_storage_is_named(lab: Project, submit: Callable[[str], str]) -> None:
    """The chunk server of the file system is suspended while a script writes one file after the other."""
    writes = "while true; do dd if=/dev/zero of=/mnt/sharedfs/dd bs=1M count=4 conv=fsync; done"
    job = submit(f"#!/bin/bash\n#SBATCH --time=10 --output=/dev/null\n{writes}")
    until(lab, lambda jobs: bool(jobs) and jobs[0]["verdict"] == "not suspicious")
    lab.ssh("login0", "systemctl kill -s STOP moosefs-chunkserver")
    try:
        jobs = until(lab, lambda jobs: bool(jobs) and bool(findings(jobs[0])))
    finally:
        lab.ssh("login0", "systemctl kill -s CONT moosefs-chunkserver")
    assert [one["job"] for one in jobs] == [job] and findings(jobs[0]) == [("waits for storage", None, "worker0")]
