"""Run on the node, a controller: which jobs have nodes now.

Input: {"job": as squeue accepts it (123, 123_4) or "", "seconds": limit of one command}.
Output: {"error": why squeue did not answer or "", "unknown": whether Slurm has no such job, "now", "jobs": [{"raw", "id", "user", "uid",
"state", "started", "nodes": [name], "tres", "partition", "name"}]}. "started": seconds since 1970, or null. "tres": GRES of each node that
were requested; those of the whole job where it requested none by node (`--gpus`, `--gpus-per-task`); or `N/A`.
Python 3.9, standard library only.
"""

from __future__ import annotations

import os
import time
from typing import Any

from rackwright.remote.programs.commands import slowness
from rackwright.remote.programs.slurm_job import PATH, hosts_of, run
from rackwright.remote.programs.slurm_occupancy import ON_NODES

KEYS = ("raw", "id", "user", "uid", "state", "started", "tres", "partition", "nodes", "name")
FORM = "%A|%i|%u|%U|%T|%S|%b|%P|%N|%j"
"""Fields of squeue(1) in the order of KEYS. The name of a job is its user's text, so it comes last."""
ALLOCATED = "JobID:|,tres-alloc:|"
"""Number and allocated TRES of a job. A suffix without a size cuts no value (Slurm, src/squeue/opts.c, _parse_long_token)."""
NONE = "N/A"
"""What squeue prints for a job that requested no TRES by node."""
NO_JOB = "Invalid job id"
"""Part of squeue's message for a job that Slurm does not have (slurm_errno.c, ESLURM_INVALID_JOB_ID)."""


def rows_of(text: str) -> list[dict[str, Any]]:
    """Return the jobs in the output of squeue. Lines of another form continue the name of a job, and are left out.

    Raise ValueError where rows are missing: the first line is no job, or the last one has no line end.

    >>> [job["name"] for job in rows_of("7|7|a|2001|RUNNING|1795000000|N/A|gpu|w[0-1]|x|y\\nz\\n")]
    ['x|y']
    """
    jobs: list[dict[str, Any]] = []
    *lines, cut = text.split("\n")
    if cut:
        raise ValueError("squeue: the list of jobs is cut: " + repr(cut[:80]))
    for line in lines:
        cells = line.split("|", len(KEYS) - 1)
        if len(cells) == len(KEYS) and cells[0].isdigit() and cells[3].isdigit():
            jobs.append(dict(zip(KEYS, cells)))
        elif line.strip() and not jobs:
            raise ValueError("squeue: a row cannot be read: " + repr(line[:80]))
    return jobs


def allocated_gres(seconds: float) -> dict[str, str]:
    """Return the GRES of each job by its number; nothing if squeue does not answer."""
    text, error = run(["squeue", "--noheader", "--all", "--states=" + ON_NODES, "--Format=" + ALLOCATED], seconds)
    rows = [line.split("|") for line in ("" if error else text).split("\n")]
    listed = {row[0].strip(): row[1].strip().split(",") for row in rows if len(row) == 3}
    return {raw: ",".join(one for one in tres if one.startswith("gres/")) for raw, tres in listed.items()}


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Return the jobs that have nodes, with the names of their nodes."""
    os.environ.update(LC_ALL="C.UTF-8", PATH=PATH, SLURM_TIME_FORMAT="%s")
    seconds = request["seconds"] * slowness()
    chosen = ["--jobs=" + request["job"]] if request["job"] else []
    text, error = run(["squeue", "--noheader", "--all", "--states=" + ON_NODES, *chosen, "--format=" + FORM], seconds)
    answer: dict[str, Any] = {"error": error, "unknown": NO_JOB in error, "now": time.time(), "jobs": []}
    if error:
        return answer
    try:
        jobs = rows_of(text)
    except ValueError as damage:
        return {**answer, "error": str(damage)}
    hosts = hosts_of({job["nodes"] for job in jobs}, seconds)
    gres = allocated_gres(seconds) if any(job["tres"] == NONE for job in jobs) else {}
    for job in jobs:
        job["tres"] = (gres.get(job["raw"]) or NONE) if job["tres"] == NONE else job["tres"]
        job["uid"], job["nodes"] = int(job["uid"]), hosts.get(job["nodes"], [])
        job["started"] = float(job["started"]) if job["started"].isdigit() else None
    return {**answer, "jobs": jobs}
