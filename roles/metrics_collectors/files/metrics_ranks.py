#!/usr/bin/python3
"""What the ranks of jobs on this node do: samples of their processes, as `rackwright jobs STACK --suspicious` takes them.

Jobs come from the processes of slurmstepd, so that a controller is not asked by every worker. No process of a user is stopped or changed.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from typing import Any

from rackwright_metrics import CollectError, Samples, run
from rank_series import add_node

from rackwright.remote.programs import job_samples
from rackwright.remote.programs.process_samples import read, stat_of
from rackwright.report.jobs.samples import read_node

SECONDS = 7.5
NUMBER = 150
"""Window and number of samples of `rackwright jobs`, which sufficed (docs/jobs.md). An overloaded node takes up to twice the time."""
MOST_JOBS = 32
"""Jobs that are sampled at once, the newest first. Chosen: it bounds the work on a node with many small jobs."""
TITLE = re.compile(r"slurmstepd: \[(\d+)\.")
"""Title of the process that started a step (slurm.schedmd.com/cgroup_v2.html: `slurmstepd: [3385.0]`)."""
NOTHING: Mapping[str, Any] = {
    "ranks": [],
    "jobs": {},
    "gpus": [],
    "apps": False,
    "gpu_error": "",
    "network": None,
    "fabric": None,
    "errors": [],
}
"""Answer of a node without jobs, which is not sampled."""


def owners(proc: str) -> dict[int, int]:
    """Return the user of each process."""
    found: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir(proc)):
        try:
            found[int(name)] = os.stat(os.path.join(proc, name)).st_uid
        except OSError:
            continue  # It has ended.
    return found


def jobs_here(proc: str = "/proc") -> dict[str, int]:
    """Return the jobs on this node with the ID of their user: that of the children of their slurmstepd, which belongs to root.

    The title of a process of a user proves nothing. A step that has only processes of root, such as that of a prolog, has no user.
    """
    users = owners(proc)
    steps = {pid: found[1] for pid, uid in users.items() if uid == 0 and (found := TITLE.match(read(pid, "cmdline", proc)))}
    jobs: dict[str, int] = {}
    for pid, uid in users.items():
        if uid != 0 and (stat := stat_of(pid, proc)) and stat.parent in steps:
            jobs[steps[stat.parent]] = uid
    return jobs


def collect(configuration: Mapping[str, Any], samples: Samples) -> None:
    """Sample for some seconds. Simulated GPUs are not read: they are always idle."""
    gpus = configuration["gpu"]
    jobs = jobs_here()
    chosen = dict(sorted(jobs.items(), key=lambda one: -int(one[0]))[:MOST_JOBS])
    began = time.time()
    request = {"jobs": chosen, "seconds": SECONDS, "samples": NUMBER, "gpus": gpus["count"] > 0 and not gpus["simulated"]}
    node = read_node("", job_samples.main(request) if chosen else NOTHING)
    if node.errors and not node.jobs:
        raise CollectError(node.errors[0])
    add_node(node, began, len(jobs) - len(chosen), samples)


if __name__ == "__main__":
    sys.exit(run("ranks", collect))
