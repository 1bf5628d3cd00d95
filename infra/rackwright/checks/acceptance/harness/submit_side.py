"""Runs on the node from which jobs are sent, as an ordinary user: one request a line on stdin, one answer a line on stdout.

Sent as text together with `smoke_side` and the side of whatever runs the jobs, which it knows as `jobs_side`; standard library only. When
stdin ends, whoever asked is gone, however it went: the jobs that it started, and no others, are cancelled by their names.
"""

import concurrent.futures
import glob
import json
import os
import pwd
import queue
import sys
import threading
import time

import jobs_side
import smoke_side

CANCEL_EVERY = 0.3
"""Seconds between two attempts: a job that is only just being sent has no name yet that could be cancelled."""
gone = threading.Event()
running = set()


def identity():
    """Who sends the jobs, from where, to which scheduler."""
    user = pwd.getpwuid(os.getuid())
    return {
        "user": user.pw_name,
        "uid": user.pw_uid,
        "gid": user.pw_gid,
        "versions": jobs_side.version(),
        "kernel": os.uname().release,
    }


def open_folder(path):
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


def write(folder, files):
    """Texts by name, each whole or not at all."""
    os.makedirs(folder, 0o755, exist_ok=True)
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".new", path)


def empty(paths):
    """Take back what jobs wrote, as far as it is the user's. Emptied, because some file systems keep deleted files for a while."""
    for pattern in paths:
        for path in glob.glob(pattern):
            open(path, "w").close()


def job(asked):
    """One job to its end: what it said and how it ended. Nothing is started any more once whoever asked is gone."""
    began = time.time()
    running.add(asked["label"])  # Before the look at `gone`: whoever sets that waits until nothing runs.
    try:
        if gone.is_set():
            return {"name": asked["name"], "status": 130, "out": "", "err": "cancelled", "began": began, "ended": began}
        told = jobs_side.run(asked, gone)
    finally:
        running.discard(asked["label"])
    return dict({"name": asked["name"], "began": began, "ended": time.time()}, **told)


def jobs(rounds, at_once):
    """Rounds of jobs, those of each at the same time, as far as so many processes go."""
    ended = []
    for one in rounds:
        jobs_side.begin(one)
        with concurrent.futures.ThreadPoolExecutor(max_workers=min(at_once, len(one))) as pool:
            ended += pool.map(job, one)
    return ended


def questions(asked):
    """Answers to shell commands, by name, in the shape of a probe's."""
    found = {}
    for name, command, seconds in asked:
        status, out, err = smoke_side.run(["sh", "-c", command], seconds)
        found[name] = {"rc": status, "out": out, "err": err, "trouble": f"no answer within {seconds:.0f} s" if status == 124 else ""}
    return found


def answer(request):
    """What a request asks for; what went wrong with it is an answer too."""
    try:
        if "open" in request:
            open_folder(request["open"])
        if "write" in request:
            write(request["write"], request["files"])
        os.environ.update(request.get("environment", {}))
        return {
            "identity": identity() if "identify" in request else None,
            "states": jobs_side.states(request) if "nodes" in request else {},
            "jobs": jobs(request.get("rounds", ()), request.get("at_once", 1)),
            "answers": questions(request.get("questions", ())),
            "emptied": empty(request.get("empty", ())),
            "trouble": "",
        }
    except (OSError, RuntimeError) as error:
        return {"identity": None, "states": {}, "answers": {}, "jobs": [], "trouble": str(error)}


def listen(requests):
    """Requests as they come; at their end, everything that still runs is cancelled."""
    for line in sys.stdin:
        requests.put(json.loads(line))
    gone.set()
    while running:
        for label in tuple(running):
            jobs_side.cancel(label)
        time.sleep(CANCEL_EVERY)
    jobs_side.end()
    requests.put(None)


def main():
    """Answer until nobody asks any more."""
    user = pwd.getpwuid(os.getuid())
    os.environ.update(HOME=user.pw_dir, USER=user.pw_name, LOGNAME=user.pw_name)
    os.chdir("/")
    requests = queue.Queue()
    threading.Thread(target=listen, args=(requests,), daemon=True).start()
    while (request := requests.get()) is not None:
        said = json.dumps(answer(request))
        try:
            print(said, flush=True)
        except BrokenPipeError:
            gone.set()
