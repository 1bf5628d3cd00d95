"""Run on the node from which jobs are sent, as an ordinary user, or on a controller: a conversation about jobs.

Input: {"jobs": the module that runs jobs or knows nodes: slurm_jobs, kubernetes_jobs or kubernetes_nodes}, sent as a library; then requests
of rackwright.checks.acceptance.harness, one a line on stdin. Output: one answer a line on stdout. When stdin ends, whoever asked is gone,
however it went: the jobs that it started, and no others, are cancelled by their names. Python 3.9, standard library only.
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
"""Seconds between two attempts: a job that is only just being sent has no name yet that could be cancelled."""
gone = threading.Event()
running: set[str] = set()


def identity(system: Jobs) -> dict[str, Any]:
    """Who sends the jobs, from where, to which scheduler."""
    user = pwd.getpwuid(os.getuid())
    return {
        "user": user.pw_name,
        "uid": user.pw_uid,
        "gid": user.pw_gid,
        "versions": system.version(),
        "kernel": os.uname().release,
    }


def open_folder(path: str) -> None:
    """The run's folder. The two above it are for everybody's runs: whoever comes first makes them so."""
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
    """Texts by name, each whole or not at all."""
    os.makedirs(folder, 0o755, exist_ok=True)
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".new", path)


def empty(paths: Sequence[str]) -> None:
    """Take back what jobs wrote, as far as it is the user's. Emptied, because some file systems keep deleted files for a while."""
    for pattern in paths:
        for path in glob.glob(pattern):
            open(path, "w").close()


def job(system: Jobs, asked: dict[str, Any]) -> dict[str, Any]:
    """One job to its end: what it said and how it ended. Nothing is started any more once whoever asked is gone."""
    began = time.time()
    running.add(asked["label"])  # Before the look at `gone`: whoever sets that waits until nothing runs.
    try:
        if gone.is_set():
            return {"name": asked["name"], "status": 130, "out": "", "err": "cancelled", "began": began, "ended": began}
        told = system.run(asked, gone)
    finally:
        running.discard(asked["label"])
    return dict({"name": asked["name"], "began": began, "ended": time.time()}, **told)


def jobs(system: Jobs, rounds: Sequence[Sequence[dict[str, Any]]], at_once: int) -> list[dict[str, Any]]:
    """Rounds of jobs, those of each at the same time, as far as so many processes go."""
    ended: list[dict[str, Any]] = []
    for one in rounds:
        system.begin(one)
        with concurrent.futures.ThreadPoolExecutor(max_workers=min(at_once, len(one))) as pool:
            ended += pool.map(functools.partial(job, system), one)
    return ended


def questions(asked: Sequence[tuple[str, str, float]]) -> dict[str, Any]:
    """Answers to shell commands, by name, in the shape of a probe's."""
    found = {}
    for name, command, seconds in asked:
        status, out, err = smoke_jobs.run(["sh", "-c", command], seconds)
        found[name] = {"rc": status, "out": out, "err": err, "trouble": f"no answer within {seconds:.0f} s" if status == 124 else ""}
    return found


def answer(system: Jobs, request: dict[str, Any]) -> dict[str, Any]:
    """What a request asks for; what went wrong with it is an answer too."""
    try:
        if "open" in request:
            open_folder(request["open"])
        if "write" in request:
            write(request["write"], request["files"])
        os.environ.update(request.get("environment", {}))
        told = {
            "identity": identity(system) if "identify" in request else None,
            "states": system.states(request) if "nodes" in request else {},
            "jobs": jobs(system, request.get("rounds", ()), request.get("at_once", 1)),
            "answers": questions(request.get("questions", ())),
            "trouble": "",
        }
        empty(request.get("empty", ()))
        return told
    except (OSError, RuntimeError) as error:
        return {"identity": None, "states": {}, "answers": {}, "jobs": [], "trouble": str(error)}


def listen(system: Jobs, requests: queue.Queue[Any]) -> None:
    """Requests as they come; at their end, everything that still runs is cancelled."""
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
    """Answer until nobody asks any more."""
    system = importlib.import_module("rackwright.remote.programs." + request["jobs"])
    user = pwd.getpwuid(os.getuid())
    os.environ.update(HOME=user.pw_dir, USER=user.pw_name, LOGNAME=user.pw_name)
    os.chdir("/")
    requests: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=listen, args=(system, requests), daemon=True).start()
    while (asked := requests.get()) is not None:
        said = json.dumps(answer(system, asked))
        try:
            print(said, flush=True)
        except BrokenPipeError:
            gone.set()
