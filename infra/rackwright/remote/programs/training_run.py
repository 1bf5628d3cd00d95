"""Run on the node from which jobs are submitted, as an ordinary user: one request about a training run on Slurm.

Input: {"action": "begin", "folder", "files": {path: text}, "needed_mib"}: create the folder, write the files, submit `job.sh`.
{"action": "follow", "folder", "name", "offsets": {file: bytes}}: return the new lines of event files, and the jobs of this name.
{"action": "cancel", "name"}: cancel all jobs of this name.
{"action": "newest", "folders": [path]}: return the first folder that holds a checkpoint, or an empty text.
Output: a line of JSON; "error" is a text if the request failed.
Python 3.9, standard library only.
"""

from __future__ import annotations

import glob
import json
import os
import pwd
import shutil
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rackwright.remote.programs import smoke_jobs
from rackwright.remote.programs.job_submission import open_folder, write

LINES = 2000
"""Lines of an answer; the next request reads on."""
SECONDS = 20
"""Time limit of a command of Slurm: slurmctld has MessageTimeout, 10 s by default (slurm.conf(5)), to reply."""


def run(*argv: str) -> tuple[int, str, str]:
    """Run a command of Slurm or MooseFS."""
    return smoke_jobs.run(list(argv), SECONDS)


def prepare_folder(request: Mapping[str, Any]) -> tuple[int, bool]:
    """Create the run's folder and its files; return the free MiB, and whether they suffice. Without enough space, no folder stays."""
    folder = request["folder"]
    open_folder(folder)
    free = os.statvfs(folder)
    free_mib = free.f_bavail * free.f_frsize // 2**20
    if free_mib < request["needed_mib"]:
        os.rmdir(folder)
        return free_mib, False
    # MooseFS keeps deleted files for a day, and a checkpoint of each interval is deleted.
    if shutil.which("mfssettrashretention"):
        run("mfssettrashretention", "-r", "0", folder)
    write(folder, request["files"])
    return free_mib, True


def begin(request: Mapping[str, Any]) -> dict[str, Any]:
    """Create the run's folder and submit its first job."""
    folder = request["folder"]
    free_mib, is_ready = prepare_folder(request)
    if not is_ready:
        return {"error": "", "free_mib": free_mib, "job": None}
    status, out, err = run("sbatch", "--parsable", os.path.join(folder, "job.sh"), "0")
    if status != 0:
        return {"error": (err.strip().splitlines() or [f"sbatch ended with status {status}"])[-1], "free_mib": free_mib, "job": None}
    return {"error": "", "free_mib": free_mib, "job": out.strip().split(";")[0], "submitted": time.time()}


def follow(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return what happened since the last request. A requeued job that only waits for the lifetime of a credential is started."""
    status, out, err = run("squeue", "--me", "--noheader", "--name", request["name"], "--format", "%i|%T|%r|%N")
    if status != 0:
        return {"error": (err.strip().splitlines() or [f"squeue ended with status {status}"])[-1]}
    jobs = [dict(zip(("id", "state", "reason", "nodes"), line.split("|"))) for line in out.splitlines() if line.count("|") == 3]
    released = [job["id"] for job in jobs if job["state"] == "PENDING" and job["reason"] == "BeginTime"]
    for job in released:
        run("scontrol", "update", "JobId=" + job, "StartTime=now")
    lines, offsets = read(request["folder"], request["offsets"])
    return {"error": "", "jobs": jobs, "released": released, "lines": lines, "offsets": offsets, "now": time.time()}


def read(folder: str, offsets: Mapping[str, int]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return the complete new lines of the run's event files, and where to read on."""
    lines: list[dict[str, Any]] = []
    ends = dict(offsets)
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.jsonl"))):
        name = os.path.basename(path)
        with open(path, "rb") as file:
            file.seek(ends.get(name, 0))
            while len(lines) < LINES:
                line = file.readline()
                if not line.endswith(b"\n"):
                    break
                ends[name] = file.tell()
                try:
                    lines.append(json.loads(line))
                except ValueError:  # A node that lost power leaves a part of a line.
                    continue
    return lines, ends


def newest(folders: Sequence[str]) -> str:
    """Return the first folder that holds a checkpoint; whether it is intact, its reader decides."""
    return next((folder for folder in folders if glob.glob(os.path.join(glob.escape(folder), "step-*", "manifest.json"))), "")


def tail(folder: str) -> str:
    """Return the end of the job's output."""
    try:
        with open(os.path.join(folder, "output.txt"), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4000))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request; an error is an answer, too."""
    # runuser keeps root's environment, which sbatch would hand to the job.
    user = pwd.getpwuid(os.getuid())
    os.environ.update(HOME=user.pw_dir, USER=user.pw_name, LOGNAME=user.pw_name)
    os.chdir("/")
    try:
        if request["action"] == "begin":
            return begin(request)
        if request["action"] == "follow":
            return follow(request)
        if request["action"] == "output":
            return {"error": "", "text": tail(request["folder"])}
        if request["action"] == "newest":
            return {"error": "", "found": newest(request["folders"])}
        status, _, err = run("scancel", "--quiet", "--me", "--name", request["name"])
        return {"error": err.strip() if status != 0 else ""}
    except OSError as error:
        return {"error": str(error)}
