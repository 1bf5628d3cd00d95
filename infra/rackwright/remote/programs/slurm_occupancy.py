"""Run on the node, a controller: read which jobs occupy nodes, and whether the nodes are drained.

Input: {"nodes": [name]}.
Output: {"nodes": {name: {"states": [state], "jobs": ["ID (NAME) of USER"]}}, "unknown": [node that Slurm does not have]}.
It ends with a message if Slurm does not answer.
Python 3.9, standard library only.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from rackwright.remote.programs.slurm_node import SlurmNode

ON_NODES = "RUNNING,COMPLETING,CONFIGURING,SUSPENDED,STOPPED,RESIZING,SIGNALING,STAGE_OUT"
"""States of a job that has CPUs of a node (squeue(1), JOB STATE CODES), as in the module slurm_drain."""
LIMIT = 15
"""Seconds for squeue: slurmctld has MessageTimeout (10 s by default, slurm.conf(5)) to reply."""
NO_NODE = "not found"
"""Part of scontrol's message for a name that is no node of Slurm: "Node NAME not found"."""


def jobs_on(node: str) -> list[str]:
    """Return the jobs that occupy a node. The name of a job is its user's text, so it comes last."""
    words = ["squeue", "--noheader", "--all", "--states=" + ON_NODES, "--nodelist=" + node, "--format=%i|%u|%j"]
    try:
        done = subprocess.run(
            words, capture_output=True, encoding="utf-8", errors="replace", timeout=LIMIT, stdin=subprocess.DEVNULL, check=False
        )
    except FileNotFoundError:
        sys.exit("squeue is not installed")
    except subprocess.TimeoutExpired:
        sys.exit("squeue: no answer in " + str(LIMIT) + " s")
    if done.returncode:
        sys.exit("squeue: " + (done.stderr or done.stdout).strip().replace("\n", "; "))
    return read_jobs(done.stdout)


def read_jobs(text: str) -> list[str]:
    """Return the jobs that squeue lists. Lines of another form continue the name of a job. It ends with a message where a row is damaged.

    >>> read_jobs("7|alice|train | big\\nsecond line\\n8_2|bob|x\\n"), read_jobs("")
    (['7 (train | big) of alice', '8_2 (x) of bob'], [])
    """
    fields = [line.split("|", 2) for line in text.split("\n")]
    if text.strip() and len(fields[0]) != 3:
        sys.exit("squeue: a row cannot be read: " + repr(text.split("\n")[0][:80]))
    if fields[-1] != [""]:
        sys.exit("squeue: the list of jobs is cut: " + repr("|".join(fields[-1])[:80]))
    return [one[0] + " (" + one[2] + ") of " + one[1] for one in fields if len(one) == 3]


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Return states and jobs of the nodes."""
    found: dict[str, Any] = {}
    unknown = []
    for name in request["nodes"]:
        try:
            states = SlurmNode(name, only_looks=True).seen()[0]
        except FileNotFoundError:
            sys.exit("scontrol is not installed")
        except OSError as error:
            if NO_NODE not in str(error):
                sys.exit(str(error))
            unknown.append(name)
            continue
        found[name] = {"states": sorted(states), "jobs": jobs_on(name)}
    return {"nodes": found, "unknown": unknown}
