"""Failures during a job: the job ends with the state and reason that Slurm documents, and the cluster is as declared afterwards."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from .conftest import chosen, drift
from .lab import Lab

pytestmark = [
    pytest.mark.skipif(chosen() != "all", reason="`make faults` sets all faults"),
    pytest.mark.fault,
    pytest.mark.podman,
    pytest.mark.parametrize("lab", ["lab"], indirect=True, scope="session"),
]
_MOST = 900.0
"""Seconds after which a state counts as absent."""

ROOM: Final = 256 * 2**20
"""Bytes that the node of a memory-hungry job has left; its other services need no more while it runs."""
_FIRST: Final = "memory.limit_in_bytes"
_TAKEN: Final = {_FIRST: "memory.usage_in_bytes", "memory.max": "memory.current"}
"""File with the usage beside the one with the limit: cgroups(7), first and second version."""


def submit_job(lab: Lab, work: str, *options: str) -> str:
    """Submit a batch job of an ordinary user on both workers; return its number once it runs."""
    assert lab.project
    said = lab.project.as_user(f"cd /tmp && sbatch --parsable --nodes=2 --ntasks=2 {' '.join(options)} --wrap '{work}'")
    number = re.findall(r"^(\d+)", said.output, re.M)
    assert said.ok and number, said.output
    wait_for_state(lab, number[-1], "RUNNING")
    return number[-1]


def state(lab: Lab, job: str) -> str:
    assert lab.project
    return lab.project.ssh("login0", f"scontrol show job {job} | grep -oE 'JobState=[A-Z_]+' | cut -d= -f2").output.strip()


def wait_for_state(lab: Lab, job: str, *wanted: str, most: float = _MOST) -> str:
    """Return the state once it is one of these."""
    ends = time.monotonic() + most
    while (now := state(lab, job)) not in wanted:
        assert time.monotonic() < ends, f"job {job} is {now}, not {wanted}"
        time.sleep(0.5)
    return now


def assert_clean(lab: Lab) -> None:
    """Assert that the cluster is as declared."""
    found = drift(lab)
    assert found["state"] == "clean", found["differences"] or found["layers"]


def steps(lab: Lab, job: str) -> str:
    """Return every step with its result in accounting."""
    assert lab.project
    return lab.project.ssh("login0", f"sacct --noheader --parsable2 --jobs={job} --format=JobID,State,ExitCode").output


def test_killed_rank_ends_job_with_reason(watched: Lab) -> None:
    job = submit_job(watched, "srun --kill-on-bad-exit=1 sleep 300")
    watched.do("worker1", "for _ in $(seq 50); do pkill -KILL -x -u alice sleep && exit 0; sleep 0.2; done; exit 1")
    assert wait_for_state(watched, job, "FAILED", "COMPLETED", "CANCELLED") == "FAILED"
    ends = time.monotonic() + _MOST
    told = steps(watched, job)
    # Accounting receives the state after the controller.
    while not re.search(rf"^{job}\|FAILED\|", told, re.M) and time.monotonic() < ends:
        time.sleep(0.5)
        told = steps(watched, job)
    assert re.search(rf"^{job}\|FAILED\|", told, re.M) and re.search(rf"^{job}\.0\|(FAILED|CANCELLED)", told, re.M), told
    assert watched.project
    assert "worker1: task 1: Killed" in watched.project.ssh("worker0", f"cat /tmp/slurm-{job}.out").output
    assert_clean(watched)


def test_out_of_memory_ends_only_its_job(watched: Lab) -> None:
    """Jobs have no control groups in this lab: the limit is the container's, and the kernel chooses the process."""
    assert watched.project
    before = daemons(watched)
    with limit_memory(f"{watched.project.stack}-worker1", ROOM):
        job = submit_job(watched, f'srun --kill-on-bad-exit=1 sh -c "sleep 3; head -c {4 * ROOM} /dev/zero | tail --lines=1 > /dev/null"')
        assert wait_for_state(watched, job, "FAILED", "OUT_OF_MEMORY", "COMPLETED", "CANCELLED") in ("FAILED", "OUT_OF_MEMORY")
    said = watched.project.ssh("worker0", f"cat /tmp/slurm-{job}.out").output
    assert re.search(r"worker1: task 1: (Exited with exit code 137|Out Of Memory|Killed)", said), said
    assert daemons(watched) == before
    assert_clean(watched)


def daemons(lab: Lab) -> str:
    """Return the processes of the node's services with their number of restarts."""
    assert lab.project
    asked = "systemctl show --property=Id,MainPID,NRestarts slurmd munge ssh chrony"
    return lab.project.ssh("worker1", asked).output


@contextmanager
def limit_memory(container: str, room: int) -> Iterator[None]:
    """Limit the container to a number of bytes above its current usage."""
    process = subprocess.run(["podman", "inspect", "--format", "{{.State.Pid}}", container], capture_output=True, text=True, check=True)
    limit = memory_limit(Path(f"/proc/{process.stdout.strip()}/cgroup").read_text(encoding="utf-8"))
    if limit is None or not os.access(limit, os.W_OK):
        pytest.skip("what a container takes of memory cannot be confined here")
    was = limit.read_text().strip()
    limit.write_text(str(room + int(limit.with_name(_TAKEN[limit.name]).read_text())))
    try:
        yield
    finally:
        limit.write_text("-1" if limit.name == _FIRST else was)


def memory_limit(groups: str) -> Path | None:
    """Return the file that limits the memory of the container's own group: cgroups(7), first or second version."""
    for line in groups.splitlines():
        _, kinds, group = line.split(":", 2)
        own = re.match(r".*/libpod-[0-9a-f]{64}(\.scope)?", group)
        top = "memory" if "memory" in kinds.split(",") else "" if not kinds else None
        if own and top is not None:
            for name in _TAKEN:
                file = Path("/sys/fs/cgroup") / top / own.group().lstrip("/") / name
                if file.exists():
                    return file
    return None


def test_time_limit_ends_job_and_frees_nodes(watched: Lab) -> None:
    job = submit_job(watched, "srun sleep 600", "--requeue")
    assert watched.project
    watched.project.ssh("login0", f"scontrol update JobId={job} TimeLimit=0:01")
    assert wait_for_state(watched, job, "TIMEOUT", "FAILED", "COMPLETED") == "TIMEOUT"
    assert watched.project.as_user("srun --nodes=2 --gres=gpu:8 --immediate=60 hostname").ok
    assert_clean(watched)


def test_requeued_job_restarts(watched: Lab) -> None:
    job = submit_job(watched, "srun sleep 20", "--requeue")
    assert watched.project
    assert watched.project.ssh("login0", f"scontrol requeue {job}").ok
    assert wait_for_state(watched, job, "COMPLETED", "FAILED", "CANCELLED") == "COMPLETED"
    told = watched.project.ssh("login0", f"scontrol show job {job}").output
    assert re.search(r"Restarts=1\b", told), told
    assert_clean(watched)


def test_slow_network_fails_no_job(watched: Lab) -> None:
    device = """$(ip -o -4 address | awk -v a="$ADDRESS" 'index($4, a "/") == 1 {print $2}')"""
    watched.do("worker1", f'tc qdisc replace dev "{device}" root tbf rate 2mbit burst 32kbit latency 800ms')
    try:
        assert watched.project
        assert watched.project.as_user("srun --nodes=2 --gres=gpu:8 --immediate=90 hostname").ok
        found = drift(watched)
    finally:
        watched.do("worker1", f'tc qdisc del dev "{device}" root')
    assert any(one["subject"].startswith("baseline.links") and one["node"] == "worker1" for one in found["differences"]), found["layers"]
    assert_clean(watched)
