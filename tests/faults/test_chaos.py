"""What goes wrong in the middle of a job: it ends as Slurm says it does, with a reason, and the cluster is as declared afterwards."""

from __future__ import annotations

import re
import time

import pytest

from .conftest import Lab, chosen, drift

pytestmark = [
    pytest.mark.skipif(chosen() != "all", reason="`make faults` sets all faults"),
    pytest.mark.fault,
    pytest.mark.timely,
    pytest.mark.podman,
    pytest.mark.parametrize("lab", ["lab"], indirect=True, scope="session"),
]
_MOST = 90
"""Seconds a job may take to start or to end."""
_AGAIN = 300
"""Slurm lets a job that was requeued wait for two minutes (sbatch(1), --requeue; BeginTime)."""


def submitted(lab: Lab, work: str, *options: str) -> str:
    """A batch job of an ordinary user over both workers; its number, once it runs."""
    assert lab.project
    said = lab.project.as_user(f"cd /tmp && sbatch --parsable --nodes=2 --ntasks=2 {' '.join(options)} --wrap '{work}'")
    number = re.findall(r"^(\d+)", said.output, re.M)
    assert said.ok and number, said.output
    until(lab, number[-1], "RUNNING")
    return number[-1]


def state(lab: Lab, job: str) -> str:
    assert lab.project
    return lab.project.ssh("login0", f"scontrol show job {job} | grep -oE 'JobState=[A-Z_]+' | cut -d= -f2").output.strip()


def until(lab: Lab, job: str, *wanted: str, most: float = _MOST) -> str:
    """The state, once it is one of these."""
    ends = time.monotonic() + most
    while (now := state(lab, job)) not in wanted:
        assert time.monotonic() < ends, f"job {job} is {now}, not {wanted}"
        time.sleep(0.5)
    return now


def assert_clean(lab: Lab) -> None:
    """The cluster is as declared."""
    found = drift(lab)
    assert found["state"] == "clean", found["differences"] or found["layers"]


def steps(lab: Lab, job: str) -> str:
    """Every step with how it ended, as accounting has it."""
    assert lab.project
    return lab.project.ssh("login0", f"sacct --noheader --parsable2 --jobs={job} --format=JobID,State,ExitCode").output


def test_a_rank_that_is_killed_ends_the_others_and_the_job_which_says_why(watched: Lab) -> None:
    job = submitted(watched, "srun --kill-on-bad-exit=1 sleep 300")
    watched.do("worker1", "for _ in $(seq 50); do pkill -KILL -x -u alice sleep && exit 0; sleep 0.2; done; exit 1")
    assert until(watched, job, "FAILED", "COMPLETED", "CANCELLED") == "FAILED"
    time.sleep(2)  # Accounting hears of it after the controller.
    told = steps(watched, job)
    assert re.search(rf"^{job}\|FAILED\|", told, re.M) and re.search(rf"^{job}\.0\|(FAILED|CANCELLED)", told, re.M), told
    assert watched.project
    assert "worker1: task 1: Killed" in watched.project.ssh("worker0", f"cat /tmp/slurm-{job}.out").output
    assert_clean(watched)


def test_a_job_that_is_too_long_ends_by_its_limit_and_frees_its_nodes(watched: Lab) -> None:
    job = submitted(watched, "srun sleep 600", "--requeue")
    assert watched.project
    watched.project.ssh("login0", f"scontrol update JobId={job} TimeLimit=0:01")
    assert until(watched, job, "TIMEOUT", "FAILED", "COMPLETED") == "TIMEOUT"
    assert watched.project.as_user("srun --nodes=2 --gres=gpu:8 --immediate=60 hostname").ok
    assert_clean(watched)


def test_a_job_that_is_requeued_runs_again_from_its_start(watched: Lab) -> None:
    job = submitted(watched, "srun sleep 20", "--requeue")
    assert watched.project
    assert watched.project.ssh("login0", f"scontrol requeue {job}").ok
    assert until(watched, job, "COMPLETED", "FAILED", "CANCELLED", most=_AGAIN) == "COMPLETED"
    told = watched.project.ssh("login0", f"scontrol show job {job}").output
    assert re.search(r"Restarts=1\b", told), told
    assert_clean(watched)


def test_a_slow_network_on_one_node_slows_jobs_and_fails_none(watched: Lab) -> None:
    device = """$(ip -o -4 address | awk -v a="$ADDRESS" 'index($4, a "/") == 1 {print $2}')"""
    watched.do("worker1", f'tc qdisc replace dev "{device}" root tbf rate 2mbit burst 32kbit latency 800ms')
    try:
        assert watched.project
        assert watched.project.as_user("srun --nodes=2 --gres=gpu:8 --immediate=90 hostname").ok
        found = drift(watched)
    finally:
        watched.do("worker1", f'tc qdisc del dev "{device}" root')
    assert any(one["subject"].startswith("traces.links") and one["node"] == "worker1" for one in found["differences"]), found["layers"]
    assert_clean(watched)
