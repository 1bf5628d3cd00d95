"""Run on the node, as root: inject a failure that ends by itself, and end failures that were injected before.

Input: {"action": "inject", "id", "mode", "seconds", "address", "bandwidth", "slot", "user", "pick"}: inject a failure. A failure that lasts
is held by the transient unit `rw-chaos-ID`: systemd undoes it after `seconds`, whether or not a client still waits for it.
{"action": "ranks", "user"}: return the ranks of training jobs on this node. {"action": "log", "text"}: write to the journal.
{"action": "units"}: return the units of failures that last. {"action": "undo"}: stop these units. {"action": "health"}: run the node
health check.
Output: a line of JSON; "error" is a text if the request failed.
Python 3.9, standard library only.
"""

from __future__ import annotations

import os
import pwd
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from typing import Any

UNIT = "rw-chaos-"
TAG = "CHAOS"
"""Tag of the lines in the node's journal."""
LIMIT = 40
"""Seconds for a command: slurmctld and its restart take a few, a busy machine makes that ten times as long."""
SETTLES = 0.7
"""Seconds after which a unit whose command failed has ended. Chosen: a command of tc or nft takes 0.01 s."""
FIRST = "sleep 1; "
"""The answer to this request leaves the node before its network is cut."""
ADDRESS_SPACE = 1048576
"""Bytes: every further allocation of more than a page or two fails."""
TABLE = "table inet rw_chaos"
CUT = (
    "add " + TABLE + "; add chain inet rw_chaos in { type filter hook input priority -300; }; "
    "add chain inet rw_chaos out { type filter hook output priority -300; }; "
    'add rule inet rw_chaos in iifname != "lo" drop; add rule inet rw_chaos out oifname != "lo" drop'
)
CHUNK_SERVER = "moosefs-chunkserver"


class Refused(Exception):
    """The node cannot have this failure, and why."""


def run(*argv: str) -> str:
    """Return the output of a command. Raise Refused with its message if it fails."""
    try:
        done = subprocess.run(
            argv, capture_output=True, encoding="utf-8", errors="replace", timeout=LIMIT, stdin=subprocess.DEVNULL, check=False
        )
    except FileNotFoundError:
        raise Refused(argv[0] + " is not installed") from None
    except subprocess.TimeoutExpired:
        raise Refused(argv[0] + ": no end in " + str(LIMIT) + " s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Refused(argv[0] + ": " + (said[-1] if said else "ended with status " + str(done.returncode)))
    return done.stdout


def log(text: str) -> None:
    """Write a line to the journal."""
    run("logger", "-t", TAG, "--", text)


def environment(pid: str) -> dict[str, str]:
    """Return a process's environment; empty for a process that has ended."""
    try:
        with open("/proc/" + pid + "/environ", "rb") as file:
            pairs = file.read().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def parent_of(pid: str) -> str:
    """Return the id of a process's parent."""
    try:
        with open("/proc/" + pid + "/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[1]
    except (OSError, IndexError):
        return ""


def ranks(user: str) -> list[dict[str, Any]]:
    """Return the ranks of a user's training jobs by rank. A child of a rank has its environment, too, and is left out."""
    uid = pwd.getpwnam(user).pw_uid
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        known = environment(pid)
        try:
            own = os.stat("/proc/" + pid).st_uid == uid
        except OSError:
            continue
        if own and known.get("RANK", "").isdigit() and known.get("SLURM_JOB_ID") and "RANK" not in environment(parent_of(pid)):
            found.append({"pid": int(pid), "rank": int(known["RANK"]), "job": known["SLURM_JOB_ID"]})
    return sorted(found, key=lambda one: (one["rank"], one["pid"]))


def chosen(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rank that receives the failure."""
    found = ranks(request["user"])
    if not found:
        raise Refused("no rank of a training job of " + request["user"] + " runs on this node")
    return found[int(request["pick"]) % len(found)]


def device(address: str) -> str:
    """Return the interface with the node's address."""
    for line in run("ip", "-o", "-4", "address").splitlines():
        words = line.split()
        if len(words) > 3 and words[3].split("/")[0] == address:
            return words[1].split("@")[0]
    raise Refused("no interface has the address " + address)


def lasting(request: Mapping[str, Any]) -> tuple[str, str]:
    """Return the commands that begin and end a failure that lasts."""
    mode = request["mode"]
    if mode == "network_slow":
        name = shlex.quote(device(request["address"]))
        limit = "rate " + shlex.quote(request["bandwidth"]) + " burst 32kb latency 50ms"
        return "tc qdisc replace dev " + name + " root tbf " + limit, "tc qdisc del dev " + name + " root"
    if mode == "network_cut":
        run("nft", "--check", CUT)
        return FIRST + "nft " + shlex.quote(CUT), "nft delete " + TABLE
    if mode == "storage_stall":
        run("systemctl", "is-active", CHUNK_SERVER)
        return "systemctl kill -s STOP " + CHUNK_SERVER, "systemctl kill -s CONT " + CHUNK_SERVER
    kind = {"gpu_lost": "missing", "xid": "xid"}[mode]
    return "rackwright-gpu-fault " + kind + " " + str(int(request["slot"])), "rackwright-gpu-fault clear"


def hold(request: Mapping[str, Any]) -> None:
    """Start the unit that begins a failure, and that ends it when its time has passed, or when it is stopped or killed."""
    begin, end = lasting(request)
    name, seconds = UNIT + request["id"], str(int(request["seconds"]))
    # Without quotes: systemd reads the words of ExecStopPost by rules of its own (systemd.service(5)).
    note = "logger -t " + TAG + " " + request["id"] + " " + request["mode"] + ": undone by its unit"
    run(
        *("systemd-run", "--collect", "--quiet", "--unit", name, "-p", "RuntimeMaxSec=" + seconds),
        *("-p", "ExecStopPost=/bin/sh -c '" + end + "; " + note + "'"),
        *("/bin/sh", "-c", begin + " && exec sleep infinity"),
    )
    time.sleep(SETTLES)
    if request["id"] not in units():
        raise Refused("unit " + name + " has ended: `journalctl -u " + name + "` says why")


def inject(request: Mapping[str, Any]) -> dict[str, Any]:
    """Inject a failure; return what received it."""
    mode, target = request["mode"], dict[str, Any]()
    if mode in ("rank_kill", "gpu_oom"):
        target = chosen(request)
    log(request["id"] + " " + mode + ": injected " + " ".join(key + "=" + str(value) for key, value in target.items()))
    if mode == "rank_kill":
        os.kill(target["pid"], signal.SIGKILL)
    elif mode == "gpu_oom":
        # As the user: root of a container may not change limits of others' processes (prlimit(2), CAP_SYS_RESOURCE).
        run("runuser", "-u", request["user"], "--", "prlimit", "--pid", str(target["pid"]), "--as=" + str(ADDRESS_SPACE))
    elif mode == "scheduler_restart":
        run("systemctl", "restart", "slurmctld")
    else:
        hold(request)
    return target


def units() -> list[str]:
    """Return the ids of failures that a unit holds."""
    states = "--state=active,activating,deactivating"
    listed = run("systemctl", "list-units", "--plain", "--no-legend", "--all", states, UNIT + "*").splitlines()
    return [line.split()[0].removeprefix(UNIT).removesuffix(".service") for line in listed if line.strip()]


def undo() -> list[str]:
    """Stop all units, which undoes their failures."""
    found = units()
    for one in found:
        run("systemctl", "stop", UNIT + one)
    return found


def health() -> bool:
    """Return whether the node is as declared, after its health check has drained or resumed it."""
    return subprocess.run(["/usr/local/sbin/rackwright-node-health", "--now"], capture_output=True, timeout=90, check=False).returncode == 0


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request; an error is an answer, too."""
    try:
        action = request["action"]
        if action == "inject":
            begun = time.time()
            target = inject(request)
            return {"error": "", "begun": begun, "injected": time.time(), "target": target}
        if action == "log":
            log(request["text"])
            return {"error": ""}
        if action == "ranks":
            return {"error": "", "ranks": ranks(request["user"])}
        if action == "health":
            return {"error": "", "healthy": health()}
        return {"error": "", "units": undo() if action == "undo" else units()}
    except (Refused, OSError, KeyError, subprocess.SubprocessError) as error:
        return {"error": str(error) or repr(error)}
