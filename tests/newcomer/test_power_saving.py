"""Power saving of the small lab on a plain machine, rootless and as root: an idle worker stops, and a job or a scan resumes it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from newcomer.journey import FIRST_UP_SECONDS, STEP_SECONDS, Journey

pytestmark = pytest.mark.newcomer

STACK = "lab-small"
POWER_SAVING = "power_saving: {suspend_time: 3m, suspend_timeout: 30s, resume_timeout: 2m}"
"""`suspend_time` must be longer than both timeouts together. Twice the default `resume_timeout`, for an emulated machine."""
AGENT_ENDS_SECONDS = 60.0
"""The agent looks every second whether the stack has a container; an emulated machine is slower."""


@pytest.fixture(scope="module")
def saving(prepared: Journey) -> Journey:
    """The small lab with power saving, up and verified."""
    journey = replace(prepared, stack=STACK)
    journey.require(f"sed -i 's/scheduler: {{kind: slurm/&, {POWER_SAVING}/' {journey.stack_file}")
    journey.require(f"grep -q power_saving {journey.stack_file}")
    result = journey.require(f"make up STACK={STACK}", FIRST_UP_SECONDS)
    assert f"{STACK}: passed" in result.output, result.end
    return journey


def status(journey: Journey) -> str:
    """Return the status of the worker's container."""
    return journey.require(f"podman container inspect --format '{{{{.State.Status}}}}' {STACK}-worker0").output.strip()


def wait_until_stopped(journey: Journey) -> None:
    """Wait until the worker's container has stopped and Slurm counts the worker as powered down."""
    deadline = time.monotonic() + STEP_SECONDS
    while status(journey) != "exited" or "POWERED_DOWN" not in journey.on_node("login0", "scontrol --oneliner show node worker0").output:
        assert time.monotonic() < deadline, journey.require(f"cat .rackwright/{STACK}/power.log").output
        time.sleep(10)


def agents(journey: Journey) -> list[str]:
    """Return the processes of the power agent."""
    processes = journey.require("ps -eo args").output.splitlines()
    return [line for line in processes if "rackwright.provider.lab.power_agent" in line.split() and STACK in line.split()]


def test_up_changes_nothing_while_idle_worker_is_stopped(saving: Journey) -> None:
    wait_until_stopped(saving)
    output = saving.require(f"make up STACK={STACK}").output
    assert "no changes. " in output and "updated" not in output, output
    assert status(saving) == "exited"
    assert len(agents(saving)) == 1


def test_job_resumes_worker(saving: Journey) -> None:
    wait_until_stopped(saving)
    result = saving.use(f"rackwright ssh {STACK} alice@login0 srun --gres=gpu:2 hostname")
    assert result.ok and result.output.split()[-1] == "worker0", result.end
    assert status(saving) == "running"


def test_drift_scan_resumes_worker_and_finds_nothing(saving: Journey) -> None:
    wait_until_stopped(saving)
    result, found = saving.drift()
    assert (result.status, found["state"], found["differences"]) == (0, "clean", []), result.end
    assert status(saving) == "running"


def test_down_leaves_nothing_and_no_agent(saving: Journey) -> None:
    saving.require(f"make down STACK={STACK}")
    assert saving.leftovers() == []
    deadline = time.monotonic() + AGENT_ENDS_SECONDS
    while agents(saving):
        assert time.monotonic() < deadline, agents(saving)
        time.sleep(5)
