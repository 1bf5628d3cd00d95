"""Run on the node from which jobs are submitted, as root: read what Slurm and a training run show of a failure.

Input: {"results": folder of training runs, "run": name or "", "offsets": {file: bytes}}. Without a name, the newest run with a job is read.
Output: {"error": text, "now", "nodes": {name: {"states": [state], "reason", "registered"}}, "run", "lines": [event], "offsets",
"jobs": [{"id", "user", "state", "nodes", "name"}]}. "registered": time at which slurmd of the node started, or null. "error" says why Slurm
did not answer; the lines of the run are read even then.
Python 3.9, standard library only.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any

from rackwright.remote.programs import smoke_jobs, training_run
from rackwright.remote.programs.slurm_occupancy import ON_NODES

SECONDS = 15
"""Seconds for a command of Slurm: slurmctld has MessageTimeout, 10 s by default (slurm.conf(5)), to reply."""
TRAINING = "rackwright-train-"
"""First part of the name of a training job (`rackwright demo`)."""
SILENT = "NOT_RESPONDING"


def ask(*argv: str) -> str:
    """Return the output of a command of Slurm. Raise OSError with its message if it fails."""
    status, out, err = smoke_jobs.run(list(argv), SECONDS)
    if status:
        raise OSError((err.strip().splitlines() or [argv[0] + " ended with status " + str(status)])[-1])
    return out


def seconds(text: str) -> float | None:
    """Return a time of Slurm in seconds since 1970; None for a node that has not registered.

    >>> seconds("None")
    """
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def nodes() -> dict[str, Any]:
    """Return the states of all nodes, and the reason of a drain. A node that does not respond has a `*` after its state."""
    found = {}
    for line in ask("scontrol", "--oneliner", "show", "node").splitlines():
        name, state = re.search(r"NodeName=(\S+)", line), re.search(r" State=(\S+)", line)
        reason = re.search(r" Reason=(.*?)(?: \[[^@\]]+@[^\]]*\]|$)", line.strip())
        if name and state:
            words = {word.rstrip("~#!%$@^-+*") for word in state.group(1).split("+")} | ({SILENT} if "*" in state.group(1) else set())
            started = re.search(r" SlurmdStartTime=(\S+)", line)
            registered = seconds(started.group(1)) if started else None
            found[name.group(1)] = {"states": sorted(words), "reason": reason.group(1) if reason else "", "registered": registered}
    return found


def jobs() -> list[dict[str, str]]:
    """Return the jobs of all users that have nodes or wait for them. The name of a job is its user's text, so it comes last."""
    keys = ("id", "user", "state", "nodes", "name")
    lines = ask("squeue", "--noheader", "--all", "--states=PENDING," + ON_NODES, "--format=%i|%u|%T|%N|%j").splitlines()
    return [dict(zip(keys, line.split("|", 4))) for line in lines if line.count("|") >= 4]


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Return the states of nodes and jobs, and the new lines of a training run."""
    answer: dict[str, Any] = {"error": "", "nodes": {}, "jobs": [], "run": request["run"], "lines": [], "offsets": request["offsets"]}
    try:
        answer["nodes"], answer["jobs"] = nodes(), jobs()
    except OSError as error:
        answer["error"] = str(error)
    trains = sorted(one["name"] for one in answer["jobs"] if one["name"].startswith(TRAINING))
    if not answer["run"] and trains:
        answer["run"] = trains[-1]
    if answer["run"]:
        folder = os.path.join(request["results"], answer["run"].replace("rackwright-", "", 1))
        answer["lines"], answer["offsets"] = training_run.read(folder, request["offsets"])
    return {**answer, "now": time.time()}
