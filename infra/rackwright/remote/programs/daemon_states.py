"""Run on the node: read which daemons exist and are suspended. Nothing waits for a daemon: the kernel knows the state of each process.

The health check of compute nodes imports `suspended` (roles/slurm_worker).
Input: {"units": [name or pattern], "pods": [static pod], "report": `suspended` or `blocks`}.
Output: `suspended`: {"suspended": {daemon: state}}. `blocks`: the blocks of `systemctl show`, each with the state of its process, and a
block of the same form for each static pod, whose name ends in `.pod`: Kubernetes runs these without a unit.
Python 3.9, standard library only.
"""

from __future__ import annotations

import glob
import os
import subprocess
import sys
import time

TYPE_CHECKING = False  # typing.TYPE_CHECKING without the import of typing, which each round would repeat on every node.
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

SHOWN = 5
"""Seconds within which systemd must list its units, times the slowness of the node. The command that lists them has a limit of its own."""
PAUSE = 0.2
"""Seconds between two readings of a process that does not run: a tracer such as strace or gcore stops a process for some milliseconds."""
FIELDS = "Id,LoadState,ActiveState,UnitFileState,MainPID,FreezerState,ControlGroup"
POD = ".pod"
"""Ending of the names of static pods."""
MANIFESTS = "/etc/kubernetes/manifests"
GROUPS = "/sys/fs/cgroup"
PROC = "/proc"
SESSIONS = ("ssh.service", "sshd.service")
"""Units whose child processes are the sessions of users, and no part of the daemon."""
STOPPED = {"T": "suspended by a signal", "t": "suspended by a debugger"}
"""States of a process that does not run: proc(5), /proc/pid/stat."""
FROZEN = "frozen"
"""State of the processes of a frozen control group: systemctl(1), freeze."""


def show(units: Sequence[str]) -> list[dict[str, str]]:
    """Return the properties of units, by name or pattern. Raises OSError or subprocess.SubprocessError if systemd does not respond."""
    if not units:
        return []  # Without names, systemctl shows the manager itself.
    command = ["systemctl", "show", "--property=" + FIELDS, "--", *units]
    limit = SHOWN * int(os.environ.get("RACKWRIGHT_SLOWNESS") or 1)
    shown = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit, check=False)
    text = shown.stdout.decode("utf-8", "replace")
    if shown.returncode or not text.strip():
        lines = shown.stderr.decode("utf-8", "replace").strip().splitlines()
        raise OSError("systemctl show: " + (lines[-1] if lines else "ended with status " + str(shown.returncode)))
    found = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in text.split("\n\n")]
    return [{**values, "ProcessState": unit_state(values)} for values in found]


def unit_state(values: dict[str, str]) -> str:
    """Return the state of a unit's daemon as one letter: T or t if it does not run, although other processes of the unit may.

    The daemon is the main process with its children of the same program, such as slurmscriptd of slurmctld. Where systemd knows no main
    process, it is all processes of the unit. Children of another program are jobs, shims or scripts.
    """
    main, members = values.get("MainPID", "0"), members_of(values.get("ControlGroup", ""))
    if main in ("", "0"):
        letters = [process_state(pid) for pid in members]
        return letters[0] if letters and all(letter in STOPPED for letter in letters) else ""
    own = process_state(main)
    if own in STOPPED or values.get("Id") in SESSIONS:
        return own
    parts = [process_state(pid) for pid in members if pid != main and parent_of(pid) == main and program_of(pid) == program_of(main)]
    return next((state for state in parts if state in STOPPED), own)


def members_of(group: str) -> list[str]:
    """Return the processes of a control group, its own and no subgroup's; none where it cannot be read (cgroup v1)."""
    return lines(GROUPS + group + "/cgroup.procs") if group.strip("/") else []


def process_state(pid: str) -> str:
    """Return the state of a process as one letter; empty if there is no such process.

    A debugger stops a process for a moment only. Suspended is a process that two readings find stopped.
    """
    state = status_of(pid)[0]
    if state in STOPPED:
        time.sleep(PAUSE)
        return status_of(pid)[0]
    return state


def parent_of(pid: str) -> str:
    """Return the parent of a process."""
    return status_of(pid)[1]


def status_of(pid: str) -> tuple[str, str]:
    """Return state and parent of a process: proc(5), the words after its name in parentheses, which may hold any character."""
    try:
        with open(PROC + "/" + pid + "/stat", encoding="utf-8", errors="replace") as file:
            words = file.read().rpartition(") ")[2].split()
        return words[0], words[1]
    except (OSError, IndexError):
        return "", ""


def program_of(pid: str) -> str:
    """Return the path of a process's program; empty if it cannot be read."""
    return link(PROC + "/" + pid + "/exe")


def link(path: str) -> str:
    """Return the target of a symbolic link; empty if it cannot be read."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def lines(path: str) -> list[str]:
    """Return the lines of a file; none if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().split("\n")[:-1]
    except OSError:
        return []


def pods(names: Iterable[str]) -> list[dict[str, str]]:
    """Return static pods as units. Their processes have the program's name, and the node's network, which other pods do not have.

    One process that runs means that the pod runs: the kubelet may be replacing another one.
    """
    wanted = set(names)
    if not wanted:
        return []
    network = link(PROC + "/1/ns/net")
    found: dict[str, list[str]] = {name: [] for name in wanted}
    for path in glob.glob(PROC + "/[0-9]*/cmdline"):
        pid = path.split("/")[-2]
        try:
            with open(path, "rb") as file:
                name = os.path.basename(file.read().split(b"\0")[0].decode("utf-8", "replace"))
        except OSError:  # The process has ended meanwhile.
            continue
        if name in wanted and network and link(PROC + "/" + pid + "/ns/net") == network:
            found[name].append(pid)
    return [pod(name, found[name]) for name in sorted(wanted)]


def pod(name: str, pids: list[str]) -> dict[str, str]:
    """Return a static pod as a unit."""
    letters = [process_state(pid) for pid in pids]
    main = next((pid for pid, state in zip(pids, letters) if state not in STOPPED), pids[0] if pids else "0")
    return {
        "MainPID": main,
        "Id": name + POD,
        "LoadState": "loaded" if pids or os.path.exists(MANIFESTS + "/" + name + ".yaml") else "not-found",
        "ActiveState": "active" if pids else "inactive",
        "UnitFileState": "static",
        "FreezerState": FROZEN if is_frozen(main) else "running",
        "ProcessState": process_state(main),
    }


def is_frozen(pid: str) -> bool:
    """Return whether the control group of a process, or one above it, is frozen (cgroup v2, cgroup.events)."""
    own = next((line.split("::", 1)[1] for line in lines(PROC + "/" + pid + "/cgroup") if line.startswith("0::")), "")
    return "frozen 1" in lines(GROUPS + own + "/cgroup.events")


def suspended(names: Sequence[str]) -> dict[str, str]:
    """Return the suspended daemons among units and static pods, with their state. If systemd does not respond, no unit is among them."""
    static = [name[: -len(POD)] for name in names if name.endswith(POD)]
    try:
        return states([name for name in names if not name.endswith(POD)], static)
    except (OSError, subprocess.SubprocessError):
        return states([], static)


def states(units: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return the suspended daemons among units and static pods, with their state. Raises as `show`."""
    found = {values.get("Id", ""): suspension(values) for values in [*show(units), *pods(names)]}
    return {name: state for name, state in found.items() if state}


def suspension(values: dict[str, str]) -> str:
    """Return why a daemon does not run; empty if it runs."""
    return FROZEN if values.get("FreezerState") == FROZEN else STOPPED.get(values.get("ProcessState", ""), "")


def main(request: dict[str, Any]) -> dict[str, Any] | None:
    """Report suspended daemons, or the state of all; exit with the reason if systemd does not respond."""
    units, names = request["units"], request.get("pods", [])
    try:
        if request["report"] == "suspended":
            return {"suspended": states(units, names)}
        found = [*show(units), *pods(names)]
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(str(error))
    print("\n\n".join("\n".join(key + "=" + value for key, value in values.items()) for values in found))
    return None
