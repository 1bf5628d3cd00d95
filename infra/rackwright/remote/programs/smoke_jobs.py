"""Run on the node from which jobs are submitted, as one of the plan's users: a few short jobs at once, and their results.

Input: the request of rackwright.checks.cluster.probes.smoke, or {"remove": folder}. Output: one JSON document; nothing for `remove`.
It uses only idle nodes, and cancels what it started when its time is up. Python 3.9, standard library only.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Any

TASK = """
import errno, fcntl, glob, json, os, socket, sys, time

def limits():
    # What control groups leave this task: bytes of memory, cores, and the GPUs that it may open (cgroups(7), sched_setaffinity(2)).
    least = None
    for line in open("/proc/self/cgroup"):
        _, controllers, path = line.strip().split(":", 2)
        v2 = controllers == ""
        if not v2 and "memory" not in controllers.split(","):
            continue
        root, name = ("/sys/fs/cgroup", "memory.max") if v2 else ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        while path not in ("", "/"):
            try:
                said = open(root + path + "/" + name).read().strip()
            except OSError:
                said = "max"
            if said.isdigit() and (least is None or int(said) < least):
                least = int(said)
            path = os.path.dirname(path)
    devices = {}
    for path in glob.glob("/dev/nvidia[0-9]*"):
        try:
            os.close(os.open(path, os.O_RDWR))
            devices[path] = "opens"
        except OSError as error:
            devices[path] = errno.errorcode.get(error.errno, str(error.errno))
    bound = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # a job may widen what it was only bound to; what confines it is what is left
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0))
    os.sched_setaffinity(0, bound)
    return {"memory": least, "cores": cores, "devices": devices}

mine = {key: os.environ.get(name) for key, name in NAMES.items()}
rank, ranks = int(mine.pop("rank")), int(mine.pop("ranks"))
mine.update(host=socket.gethostname(), uid=os.getuid(), began=time.time())
folder, records, locks, meeting, me, other = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5], sys.argv[6]
if folder:
    with open(os.path.join(folder, "from-" + mine["host"]), "w") as own:
        own.write("written by a job on " + mine["host"])
    shared = os.open(os.path.join(folder, "together"), os.O_WRONLY)
    for turn in range(records):
        line = "%06d %-24s" % (turn * ranks + rank, mine["host"][:24])
        length = len(line) + 1
        place = (turn * ranks + rank) * length
        if locks:
            fcntl.lockf(shared, fcntl.LOCK_EX, length, place)
        os.pwrite(shared, (line + chr(10)).encode(), place)
        if locks:
            fcntl.lockf(shared, fcntl.LOCK_UN, length, place)
    os.fsync(shared)
if other:
    place = os.path.join(meeting, "%s-" + mine["host"])
    open(place % me, "w").close()
    patience = time.monotonic() + PATIENCE
    while os.path.basename(place % other) not in os.listdir(meeting) and time.monotonic() < patience:
        time.sleep(0.05)
mine.update(limits())
mine["ended"] = time.time()
print("TASK " + json.dumps(mine), flush=True)
"""
EXCEED = """
import json, os, signal, sys

def kills():
    # Processes that the kernel killed in each control group above this task (cgroup v2, memory.events).
    found = {}
    for line in open("/proc/self/cgroup"):
        _, controllers, path = line.strip().split(":", 2)
        while controllers == "" and path not in ("", "/"):
            try:
                rows = dict(row.split() for row in open("/sys/fs/cgroup" + path + "/memory.events"))
                found[path] = int(rows.get("oom_kill", 0))
            except OSError:
                pass
            path = os.path.dirname(path)
    return found

before, child = kills(), os.fork()
if not child:
    try:
        blocks = [bytearray(b"1") * 2**20 for _ in range(int(sys.argv[1]))]
    except MemoryError:
        os._exit(3)
    os._exit(0)
status = os.waitpid(child, 0)[1]
after = kills()
more = [count - before.get(path, 0) for path, count in after.items()]
report = {"node": os.environ.get("SLURMD_NODENAME"), "job": os.environ.get("SLURM_JOB_ID"), "kills": max(more, default=None)}
report["signal"] = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
report["status"] = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
print("TASK " + json.dumps(report), flush=True)
"""
EXCEEDS = 2
"""Multiple of its requested memory that a job fills, to be killed for it."""
ENDING = frozenset({"RUNNING", "COMPLETING", "PENDING", "STAGE_OUT"})
"""States that `scontrol show job` reports of a job until its end is recorded."""
MEETS = 8
"""Seconds that one job waits for the other: both are submitted at once, to idle nodes."""
NAMES = {
    "job": "SLURM_JOB_ID",
    "visible": "CUDA_VISIBLE_DEVICES",
    "gpus": "SLURM_STEP_GPUS",
    "node": "SLURMD_NODENAME",
    "rank": "SLURM_PROCID",
    "ranks": "SLURM_NTASKS",
    "cpus": "SLURM_CPUS_ON_NODE",
}
MEMORY = 64
"""MiB of memory that each job requests on a node."""
HEADSTART = 0.3
"""Seconds by which the interactive jobs are submitted earlier: behind a batch job they would wait for the scheduler's next round."""
LATE = frozenset({"mixed none", "allocated none", "mixed- none", "planned none"})
"""States that slurmctld may report for a while after a node's last job has ended: 15 s were seen, and `planned` until the next backfill."""
IDLE = frozenset({"idle", "idle~", "idle#", "idle!", "idle%", "power_down", "powered_down", "powering_down", "powering_up"})
"""States in which a job can start, at once or after the node is powered up."""
RAN_OUT = "incomplete after"
"""Message for records that accounting did not have in time."""
ON_NODES = frozenset({"PENDING", "RUNNING", "SUSPENDED", "STOPPED", "COMPLETING", "CONFIGURING", "STAGE_OUT", "SIGNALING", "RESIZING"})
BATCH = """#!/bin/sh
#SBATCH --job-name=rackwright-batch --nodes=1 --ntasks=1 --mem=64
echo "BATCH $SLURM_JOB_ID $(hostname) $(id -un)"
"""


SLOWNESS = int(os.environ.get("RACKWRIGHT_SLOWNESS", "1"))
"""The factor by which this node's time limits grow (commands.py)."""


def run(argv: Sequence[str], limit: float, stdin: bytes | None = None) -> tuple[int, str, str]:
    """Run a command to its end, or stop it with the signals that make srun cancel its job: then the status is 124, with its output."""
    limit *= SLOWNESS
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=os.setsid)
    try:
        out, err = child.communicate(stdin, timeout=limit)
    except subprocess.TimeoutExpired as expired:
        text = (expired.stderr or b"").decode("utf-8", "replace") + f"\nno answer within {limit} s"
        os.killpg(child.pid, signal.SIGINT)
        time.sleep(0.2)
        os.killpg(child.pid, signal.SIGTERM)
        try:
            out, _ = child.communicate(timeout=3)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, _ = child.communicate()
        return 124, out.decode("utf-8", "replace"), text.strip()
    return child.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def states(nodes: Sequence[str]) -> dict[str, str]:
    """Return the state of each node, as the scheduler reports it now."""
    rc, out, err = run(["sinfo", "-h", "-N", "-n", ",".join(nodes), "-o", "%N %T %E"], 10)
    if rc:
        raise RuntimeError("sinfo: " + (err.strip() or f"status {rc}"))
    found = {words[0]: words[1].strip() for words in (line.split(None, 1) for line in out.splitlines()) if len(words) == 2}
    late = {name for name, state in found.items() if state in LATE and not jobs_of(name, state)}
    return {name: "idle none" if name in late else state for name, state in found.items()}


def jobs_of(node: str, state: str) -> list[str]:
    """Return the jobs on a node, or those that may wait for it if it is planned for one; the state if other users' jobs are hidden."""
    _, config, _ = run(["scontrol", "show", "config"], 10)
    private = [line for line in config.splitlines() if line.split("=")[0].strip() == "PrivateData"]
    if not private or "jobs" in private[0]:
        return [state]
    which = ["--states=PENDING"] if state.startswith("planned") else ["--states=all", "--nodelist=" + node]
    rc, out, err = run(["squeue", "--noheader", "--format=%i %T", *which], 10)
    if rc:
        raise RuntimeError("squeue: " + (err.strip() or f"status {rc}"))
    return [line.split()[0] for line in out.splitlines() if line.split()[1:] and line.split()[1] in ON_NODES]


def wait_for_idle(nodes: Sequence[str], seconds: float, completing: float = 0) -> dict[str, str]:
    """Return the states after all nodes are idle, or when the time is up: a node stays allocated for a moment after its job.

    `completing`: seconds to wait while a node does nothing but complete a job.
    """
    began = time.monotonic()
    found = states(nodes) if nodes else {}
    while not all(is_idle(state) for state in found.values()):
        ends = any(state.startswith("completing") for state in found.values())
        if time.monotonic() - began >= (max(seconds, completing) if ends else seconds) * SLOWNESS:
            break
        time.sleep(0.2)
        found = states(nodes)
    return found


def srun(
    part: dict[str, Any], gpus: int, folder: str | None, request: dict[str, Any], meeting: str = "", me: str = "", other: str = ""
) -> dict[str, Any]:
    """Run one job over all nodes of a part and return its output. With `other`, the job waits until that job runs."""
    command = ["srun", "--job-name=rackwright-smoke", "--partition=" + part["partition"], "--nodelist=" + ",".join(part["nodes"])]
    command += [f"--nodes={len(part['nodes'])}", "--ntasks-per-node=1", "--cpus-per-task=1", f"--mem={MEMORY}", "--kill-on-bad-exit"]
    command += [f"--time={1 + SLOWNESS}"]
    command += [f"--gres=gpu:{gpus}"] if gpus else []
    task = "NAMES = " + repr(NAMES) + "\nPATIENCE = " + repr(MEETS * SLOWNESS) + TASK
    command += ["python3", "-I", "-S", "-c", task, folder or "", str(request["records"]), "locks" if request["locks"] else ""]
    command += [meeting, me, other]
    rc, out, err = run(command, request["seconds"])
    tasks = [json.loads(line[5:]) for line in out.splitlines() if line.startswith("TASK ")]
    return {"asked": gpus, "nodes": part["nodes"], "rc": rc, "tasks": tasks, "said": err.strip()[-2000:]}


def batch(part: dict[str, Any], folder: str, request: dict[str, Any]) -> dict[str, Any]:
    """Submit a batch job whose output goes to the shared file system, and read the output back here."""
    output = os.path.join(folder, "batch.out")
    command = [
        "sbatch",
        "--parsable",
        "--partition=" + part["partition"],
        "--nodelist=" + part["nodes"][0],
        "--output=" + output,
        "--chdir=" + folder,
        f"--time={1 + SLOWNESS}",
    ]
    rc, out, err = run(command, 10, BATCH.encode())
    if rc:
        return {"rc": rc, "job": "", "output": "", "said": err.strip()[-400:]}
    job = out.strip().partition(";")[0]  # with the name of the cluster behind it (sbatch(1), --parsable)
    deadline, text, state = time.monotonic() + request["seconds"] * SLOWNESS, "", ""
    while time.monotonic() < deadline and not text.endswith("\n"):
        time.sleep(0.1)
        # The folder is listed instead of the name being opened: over NFS, a missing name is cached as missing for 30 s (nfs(5), acdirmin).
        if os.path.basename(output) in os.listdir(folder):
            with open(output) as file:
                text = file.read()
    if not text:
        state = state_of(job)
        run(["scancel", job], 10)
    waited = request["seconds"] * SLOWNESS
    return {"rc": 0, "job": job, "output": text.strip(), "said": err.strip()[-400:], "state": state, "seconds": waited}


def state_of(job: str) -> str:
    """Return the state of a job without output, or the error of squeue; squeue forgets an ended job after a while (MinJobAge)."""
    rc, out, err = run(["squeue", "--noheader", "--states=all", "--format=%T", "--jobs=" + job], 10)
    if rc:
        return "COMPLETED" if "Invalid job id" in err else "unknown: " + (err.strip() or f"squeue ended with status {rc}")[-200:]
    return out.strip() or "COMPLETED"


def exceed(part: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Run one job over all nodes of a part that fills more memory than it requested. Return its output and what Slurm reports of its end.

    A child of each task fills the memory, so that the task survives to report its end. `--kill-on-bad-exit=0`: no task ends the others.
    """
    command = ["srun", "--job-name=rackwright-memory", "--partition=" + part["partition"], "--nodelist=" + ",".join(part["nodes"])]
    command += [f"--nodes={len(part['nodes'])}", "--ntasks-per-node=1", "--cpus-per-task=1", f"--mem={MEMORY}", "--kill-on-bad-exit=0"]
    command += [f"--time={1 + SLOWNESS}", "python3", "-I", "-S", "-c", EXCEED, str(EXCEEDS * MEMORY)]
    rc, out, err = run(command, request["seconds"])
    tasks = [json.loads(line[5:]) for line in out.splitlines() if line.startswith("TASK ")]
    started = next((task["job"] for task in tasks), None) or next(iter(re.findall(r"(?:job |StepId=|step )(\d+)", err)), "")
    states = ended_states(started, request) if started else []
    return {"nodes": part["nodes"], "rc": rc, "tasks": tasks, "said": err.strip()[-2000:], "job": started, "states": states}


def ended_states(job: str, request: dict[str, Any]) -> list[str]:
    """Return the states of an ended job and its steps, from slurmctld and, if the plan has it, from accounting; none without an answer."""
    deadline = time.monotonic() + 3 * SLOWNESS
    found: list[str] = []
    while True:
        rc, out, _ = run(["scontrol", "--oneliner", "show", "job", job], 10)
        found = re.findall(r"\bJobState=(\w+)", out) if rc == 0 else []
        if not ENDING.intersection(found) or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    if request["accounting"] and "OUT_OF_MEMORY" not in found:
        rc, out, _ = run(["sacct", "-nP", "-j", job, "-o", "State"], 10)
        found += [line.split()[0] for line in out.splitlines() if line.strip() and not line.startswith("sacct:")] if rc == 0 else []
    return [state for state in found if state not in ENDING]


def accounts(jobs: Sequence[str], seconds: float) -> dict[str, Any]:
    """Return the accounting records of the jobs, after they hold the jobs' end or when the time is up."""
    deadline = time.monotonic() + seconds * SLOWNESS
    lines: list[dict[str, str]] = []
    fields = ("JobID", "State", "User", "NNodes", "AllocTRES", "ExitCode")
    while jobs:
        rc, out, err = run(["sacct", "-nXP", "-j", ",".join(jobs), "-o", ",".join(fields)], 10)
        if rc:
            return {"rc": rc, "jobs": [], "said": err.strip()[-400:]}
        rows = [line.strip().split("|") for line in out.splitlines()]
        lines = [dict(zip(fields, row)) for row in rows if len(row) == len(fields)]
        if len(lines) >= len(jobs) and all(line["State"] not in ("RUNNING", "PENDING", "COMPLETING") for line in lines):
            break
        if time.monotonic() > deadline:
            return {"rc": 0, "jobs": lines, "said": f"{RAN_OUT} {seconds * SLOWNESS} s"}
        time.sleep(0.1)
    return {"rc": 0, "jobs": lines, "said": ""}


def is_idle(state: str) -> bool:
    """Return whether a job can start on a node: it is idle, or powered up when the job needs it (sinfo(1), NODE STATE CODES)."""
    return bool(IDLE.intersection(state.split(None, 1)[:1]))


def idle_parts(request: dict[str, Any], found: dict[str, str]) -> list[dict[str, Any]]:
    """Return the parts of the plan, reduced to nodes that are idle now."""
    parts = []
    for part in request["parts"]:
        nodes = [name for name in part["nodes"] if is_idle(found.get(name, ""))]
        if nodes:
            parts.append(dict(part, nodes=nodes))
    return parts


def smoke(request: dict[str, Any]) -> dict[str, Any]:
    """Run all jobs of one smoke run."""
    found = wait_for_idle([name for part in request["parts"] for name in part["nodes"]], request["settle_seconds"])
    parts = idle_parts(request, found)
    folder = None
    if request["storage"] and parts:
        folder = os.path.join(request["storage"], ".rackwright-smoke-" + request["token"])
        # Only this run has the token. A client of a slow file server sends a request again, and is told then that the folder exists.
        os.makedirs(folder, 0o755, exist_ok=True)
        # Created here: if two nodes create the same file at once, both may get the error that it exists (FUSE), which is not tested here.
        open(os.path.join(folder, "together"), "w").close()
    meeting = folder or "/dev/shm"
    with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
        runs = []
        for part in parts:
            runs.append(("plain", pool.submit(srun, part, 0, folder, request)))
            pair = ("first-" + request["token"], "second-" + request["token"] if part["second"] else "")
            if part["first"]:
                runs.append(("first", pool.submit(srun, part, part["first"], None, request, meeting, pair[0], pair[1])))
            if part["second"]:
                runs.append(("second", pool.submit(srun, part, part["second"], None, request, meeting, pair[1], pair[0])))
        if folder:
            time.sleep(HEADSTART)
        sent = pool.submit(batch, parts[0], folder, request) if folder else None
        jobs = [dict(run.result(), name=name) for name, run in runs]
        batched = sent.result() if sent else None
        # After the others: on a node with two CPUs it would keep the pair of GPU jobs from meeting.
        exceeding = list(pool.map(lambda part: exceed(part, request), parts)) if request.get("exceed_memory") else []
    ids = sorted({task["job"] for job in jobs for task in job["tasks"]} | ({batched["job"]} if batched and batched["job"] else set()))
    accounted = accounts(ids, request["accounting_seconds"]) if request["accounting"] else None
    results = {"states": found, "jobs": jobs, "batch": batched, "accounts": accounted, "folder": folder, "records": request["records"]}
    return dict(results, exceeding=exceeding)


def remove(folder: str) -> None:
    """Remove the run's folder. Files are truncated first, because some file systems keep deleted files for a while."""
    for name in os.listdir(folder):
        open(os.path.join(folder, name), "w").close()
    shutil.rmtree(folder)


def main(request: dict[str, Any]) -> dict[str, Any] | None:
    """Run the smoke jobs as the user who runs this program, and return the result."""
    user = pwd.getpwuid(os.getuid())
    os.environ.update(HOME=user.pw_dir, USER=user.pw_name, LOGNAME=user.pw_name)
    os.chdir("/")
    if "remove" in request:
        remove(request["remove"])
        return None
    return smoke(request)
