"""Runs beside `submit_side`, which calls it `jobs_side`: what a request means where Slurm runs the jobs. Standard library only."""

import os
import pwd

import smoke_side


def version():
    """What runs the jobs, and its release."""
    _, said, _ = smoke_side.run(["scontrol", "-V"], 10)
    return {"slurm": said.strip().split(" ")[-1]}


def run(asked, _gone):
    """One job to its end, as (status, out, err) and more."""
    status, out, err = smoke_side.run(asked["argv"], asked["seconds"], asked["stdin"].encode())
    if status == 124:
        cancel(asked["label"])
    return {"status": status, "out": out, "err": err}


def cancel(label):
    """Cancel the jobs of that name, which only this run gives."""
    smoke_side.run(["scancel", "--quiet", "--user", pwd.getpwuid(os.getuid()).pw_name, "--name", label], 10)


def states(request):
    """How the nodes are, once they have ended what they were doing or had the time for it."""
    return smoke_side.settled(request["nodes"], request["settle_seconds"], request.get("completing_seconds", 0))


def begin(_asked):
    """A round: what has no room waits in Slurm's own queue."""


def end():
    """Cancelled jobs leave nothing."""
