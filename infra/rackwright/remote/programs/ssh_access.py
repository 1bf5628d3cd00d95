"""Run on the node as root, a worker: ask sshd's PAM stack whether it admits a user without a job and with one, and where the session is.

Input: {"user", "node", "partition", "seconds"}. Output: one JSON document. No key and no connection is needed: the stack of /etc/pam.d/sshd
runs in a child process, with the calls of sshd (pam_acct_mgmt(3), pam_open_session(3)). Python 3.9, standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import time
from collections.abc import Sequence
from typing import Any

SLOWNESS = int(os.environ.get("RACKWRIGHT_SLOWNESS", "1"))
"""The factor by which this node's time limits grow (commands.py)."""

BY_SLUID = re.compile(r"/slurmstepd\.scope/s[0-9A-Z]{13}/")
"""Part of a control group of a job since Slurm 26.05 (cgroup.conf(5), CgroupJobIdPaths; sluid.c, print_sluid)."""


class Message(ctypes.Structure):
    """struct pam_message (pam_conv(3))."""

    _fields_ = (("style", ctypes.c_int), ("text", ctypes.c_char_p))


MESSAGES = ctypes.POINTER(ctypes.POINTER(Message))
CONVERSE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, MESSAGES, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)


class Conversation(ctypes.Structure):
    """struct pam_conv (pam_conv(3))."""

    _fields_ = (("converse", CONVERSE), ("data", ctypes.c_void_p))


def ask_pam(user: str) -> dict[str, Any]:
    """Return status and messages of the account modules for a user, and the control group of an admitted session, in this process."""
    # Debian's module is not linked with libpam: as in sshd, its symbols must be global.
    pam, libc = ctypes.CDLL("libpam.so.0", mode=ctypes.RTLD_GLOBAL), ctypes.CDLL(None)
    libc.calloc.restype, libc.calloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]
    pam.pam_strerror.restype = ctypes.c_char_p
    said: list[str] = []

    def converse(count: int, messages: Any, responses: Any, _data: Any) -> int:
        said.extend((messages[number].contents.text or b"").decode("utf-8", "replace") for number in range(count))
        responses[0] = libc.calloc(count, 2 * ctypes.sizeof(ctypes.c_void_p))  # empty answers; PAM frees them
        return 0

    handle, kept = ctypes.c_void_p(), Conversation(CONVERSE(converse), None)
    started = pam.pam_start(b"sshd", user.encode(), ctypes.byref(kept), ctypes.byref(handle))
    if started:
        return {"error": f"pam_start failed with status {started}"}
    status = pam.pam_acct_mgmt(handle, 0)
    answer = {
        "status": status,
        "error": "",
        "reason": (pam.pam_strerror(handle, status) or b"").decode("utf-8", "replace"),
        "said": said,
        "cgroup": "",
    }
    if status == 0:
        # A session module may fail here for reasons of its own; what counts is where the process then is.
        pam.pam_open_session(handle, 0)
        with open("/proc/self/cgroup") as file:
            answer["cgroup"] = file.read().strip()
        pam.pam_close_session(handle, 0)
    pam.pam_end(handle, status)
    return answer


def ask_in_child(user: str) -> dict[str, Any]:
    """Return the answer of PAM from a child process: Slurm adopts the process that asks, and ends it with the job."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = ask_pam(user)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"error": "the process that asked PAM was killed"}


def run(argv: Sequence[str]) -> str:
    """Return the output of a command of Slurm. Raise RuntimeError with its last line if it fails."""
    try:
        ended = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace", timeout=10 * SLOWNESS
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{argv[0]}: no answer within {10 * SLOWNESS} s") from None
    if ended.returncode:
        raise RuntimeError(f"{argv[0]}: " + ((ended.stderr.strip().splitlines() or ["no message"])[-1]))
    return ended.stdout


def jobs_of(request: dict[str, Any]) -> list[str]:
    """Return the user's jobs on the node, after jobs that are ending have ended or when the time is up."""
    deadline = time.monotonic() + request["seconds"] * SLOWNESS
    while True:
        lines = run(["squeue", "--noheader", "--user=" + request["user"], "--nodelist=" + request["node"], "--format=%i %T"]).splitlines()
        jobs = [line.split() for line in lines if len(line.split()) == 2]
        if any(state != "COMPLETING" for _, state in jobs) or not jobs or time.monotonic() > deadline:
            return [job for job, _ in jobs]
        time.sleep(0.5)


def submit(request: dict[str, Any]) -> str:
    """Submit a job that only waits, as the user, to this node. Return its id."""
    options = ["--parsable", "--job-name=rackwright-ssh", "--output=/dev/null", "--chdir=/", "--ntasks=1", "--mem=32"]
    options += ["--partition=" + request["partition"], "--nodelist=" + request["node"], f"--time={1 + SLOWNESS}"]
    said = run(["runuser", "-u", request["user"], "--", "sbatch", *options, "--wrap=sleep 600"])
    return said.strip().splitlines()[-1].partition(";")[0]


def wait_until_running(job: str, seconds: float) -> str:
    """Return the state of a job when it runs or has ended, or when the time is up."""
    deadline = time.monotonic() + seconds * SLOWNESS
    while True:
        state = run(["squeue", "--noheader", "--states=all", "--format=%T", "--jobs=" + job]).strip()
        if state not in ("PENDING", "CONFIGURING") or time.monotonic() > deadline:
            return state
        time.sleep(0.5)


def ask_until_admitted(user: str, seconds: float) -> dict[str, Any]:
    """Return PAM's answer when it admits the user, or the last one: slurmctld calls a job running before its processes exist here."""
    deadline = time.monotonic() + seconds * SLOWNESS
    while True:
        answer = ask_in_child(user)
        if answer.get("status") == 0 or answer["error"] or time.monotonic() > deadline:
            return answer
        time.sleep(0.5)


def sluid_of(job: str) -> str:
    """Return the second name of a job, by which Slurm calls its control groups; empty if it has none."""
    found = re.search(r" SLUID=(\S+)", run(["scontrol", "--details", "--oneliner", "show", "job", job]))
    return found[1] if found else ""


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Return PAM's answers without and with a job of the user on this node, and why one is missing."""
    answer: dict[str, Any] = {"without": None, "with": None, "job": "", "state": "", "jobs": [], "error": "", "sluid": ""}
    try:
        answer["jobs"] = jobs_of(request)
        if answer["jobs"]:
            return answer
        answer["without"] = ask_in_child(request["user"])
        answer["job"] = submit(request)
        try:
            answer["state"] = wait_until_running(answer["job"], request["seconds"])
            if answer["state"] == "RUNNING":
                answer["with"] = ask_until_admitted(request["user"], request["seconds"])
                if BY_SLUID.search(answer["with"].get("cgroup", "")):
                    answer["sluid"] = sluid_of(answer["job"])
        finally:
            run(["scancel", answer["job"]])
    except (OSError, RuntimeError) as error:
        answer["error"] = str(error)
    return answer
