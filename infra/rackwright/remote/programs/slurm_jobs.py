"""Run on the node, imported by job_submission: run requests where Slurm runs the jobs. Python 3.9, standard library only."""

from __future__ import annotations

import os
import pwd
import threading
from collections.abc import Sequence
from typing import Any

from rackwright.remote.programs import smoke_jobs


def version() -> dict[str, str]:
    """Return the name and the release of the scheduler."""
    _, text, _ = smoke_jobs.run(["scontrol", "-V"], 10)
    return {"slurm": text.strip().split(" ")[-1]}


def run(request: dict[str, Any], _gone: threading.Event) -> dict[str, Any]:
    """Run one job to its end; return (status, out, err) and more."""
    status, out, err = smoke_jobs.run(request["argv"], request["seconds"], request["stdin"].encode())
    if status == 124:
        cancel(request["label"])
    return {"status": status, "out": out, "err": err}


def cancel(label: str) -> None:
    """Cancel the jobs of that name, which only this run uses."""
    smoke_jobs.run(["scancel", "--quiet", "--user", pwd.getpwuid(os.getuid()).pw_name, "--name", label], 10)


def states(request: dict[str, Any]) -> dict[str, str]:
    """Return the states of the nodes after their work has ended or the time limit has passed."""
    return smoke_jobs.wait_for_idle(request["nodes"], request["settle_seconds"], request.get("completing_seconds", 0))


def begin(_asked: Sequence[dict[str, Any]]) -> None:
    """Do nothing: jobs without room wait in Slurm's own queue."""


def end() -> None:
    """Do nothing: cancelled jobs leave nothing behind."""
