"""Run on the node from which jobs are submitted, as an ordinary user, or on a controller: a session of requests about jobs.

Input: {"jobs": the module that runs jobs or queries nodes: slurm_jobs, kubernetes_jobs or kubernetes_nodes}, sent as a library; then
requests of rackwright.checks.acceptance.harness, one a line on stdin. Output: one answer a line on stdout. When stdin ends, the caller
has gone, for whatever reason: the jobs that this program submitted, and no others, are cancelled by name.
Python 3.9, standard library only.
"""

from __future__ import annotations

import concurrent.futures
import functools
import glob
import importlib
import json
import os
import pwd
import queue
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from rackwright.remote.programs import smoke_jobs

Jobs = Any
"""A module with `version`, `run`, `cancel`, `states`, `begin` and `end`; of kubernetes_nodes only the last three."""

CANCEL_EVERY = 0.3
"""Seconds between two attempts: a job that is being submitted has no name yet by which it could be cancelled."""
gone = threading.Event()
running: set[str] = set()


def identity(system: Jobs) -> dict[str, Any]:
    """Return the user who submits the jobs, the node, and the scheduler."""
    user = pwd.getpwuid(os.getuid())
    return {
        "user": user.pw_name,
        "uid": user.pw_uid,
        "gid": user.pw_gid,
        "versions": system.version(),
        "kernel": os.uname().release,
    }


def open_folder(path: str) -> None:
    """Create the run's folder. The two folders above it are shared by all users; the first run creates them with open permissions."""
    parents, missing = [path], []
    while len(parents) < 3:
        parents.append(os.path.dirname(parents[-1]))
    for folder in reversed(parents[1:]):
        if not os.path.isdir(folder):
            missing.append(folder)
    for folder in missing:
        os.mkdir(folder)
        os.chmod(folder, 0o1777)
    os.mkdir(path, 0o755)


def write(folder: str, files: dict[str, str]) -> None:
    """Write texts by name, each atomically."""
    os.makedirs(folder, 0o755, exist_ok=True)
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".new", path)


def empty(paths: Sequence[str]) -> None:
    """Remove what jobs wrote, as far as the user owns it.

    Files are truncated first, because some file systems keep deleted files for a while.
    """
    for pattern in paths:
        for path in glob.glob(pattern):
            open(path, "w").close()


def job(system: Jobs, request: dict[str, Any]) -> dict[str, Any]:
    """Run one job to its end; return its output and how it ended. After the caller has gone, no job is started."""
    began = time.time()
    running.add(request["label"])  # Before the test of `gone`: the thread that sets it waits until nothing runs.
    try:
        if gone.is_set():
            return {"name": request["name"], "status": 130, "out": "", "err": "cancelled", "began": began, "ended": began}
        result = system.run(request, gone)
    finally:
        running.discard(request["label"])
    return dict({"name": request["name"], "began": began, "ended": time.time()}, **result)


def jobs(system: Jobs, rounds: Sequence[Sequence[dict[str, Any]]], at_once: int) -> list[dict[str, Any]]:
    """Run jobs round by round; the jobs of a round run at the same time, up to the limit of processes."""
    ended: list[dict[str, Any]] = []
    for one in rounds:
        system.begin(one)
        with concurrent.futures.ThreadPoolExecutor(max_workers=min(at_once, len(one))) as pool:
            ended += pool.map(functools.partial(job, system), one)
    return ended


def questions(commands: Sequence[tuple[str, str, float]]) -> dict[str, Any]:
    """Return the answers to shell commands, by name, in the shape of a probe's answers."""
    found = {}
    for name, command, seconds in commands:
        began = time.monotonic()
        status, out, err = smoke_jobs.run(["sh", "-c", command], seconds)
        took = time.monotonic() - began
        trouble = f"{name}: no answer within {took:.0f} s" if status == 124 else ""
        found[name] = {"rc": status, "out": out, "err": err, "error": trouble, "seconds": took}
    return found


def answer(system: Jobs, request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request; an error is an answer too."""
    try:
        if "open" in request:
            open_folder(request["open"])
        if "write" in request:
            write(request["write"], request["files"])
        os.environ.update(request.get("environment", {}))
        result = {
            "identity": identity(system) if "identify" in request else None,
            "states": system.states(request) if "nodes" in request else {},
            "jobs": jobs(system, request.get("rounds", ()), request.get("at_once", 1)),
            "answers": questions(request.get("questions", ())),
            "error": "",
        }
        empty(request.get("empty", ()))
        return result
    except (OSError, RuntimeError) as error:
        return {"identity": None, "states": {}, "answers": {}, "jobs": [], "error": str(error)}


def listen(system: Jobs, requests: queue.Queue[Any]) -> None:
    """Answer requests as they arrive; at the end of input, cancel everything that still runs."""
    for line in sys.stdin:
        requests.put(json.loads(line))
    gone.set()
    while running:
        for label in tuple(running):
            system.cancel(label)
        time.sleep(CANCEL_EVERY)
    system.end()
    requests.put(None)


def main(request: dict[str, Any]) -> None:
    """Answer requests until the caller has gone."""
    system = importlib.import_module("rackwright.remote.programs." + request["jobs"])
    user = pwd.getpwuid(os.getuid())
    os.environ.update(HOME=user.pw_dir, USER=user.pw_name, LOGNAME=user.pw_name)
    os.chdir("/")
    requests: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=listen, args=(system, requests), daemon=True).start()
    while (received := requests.get()) is not None:
        text = json.dumps(answer(system, received))
        try:
            print(text, flush=True)
        except BrokenPipeError:
            gone.set()
