"""Run on the node, as root: sample what the processes of jobs wait for, GPUs, and bytes on the network.

Input: {"jobs": {number: user ID}, "seconds", "samples", "gpus": whether GPUs are read}.
Output: {"ranks": [{"pid", "job", "step", "source", "rank", "size", "command", "samples", "waits": {"S futex_do_wait": number}, "seconds",
"ended", "cpu", "run_delay", "read", "written", "gpus": [uuid]}], "jobs": {number: {"processes", "ended", "cpu", "seconds", "stopped":
[pid]}}, "gpus": [{"uuid", "index", "busy": [percent], "power": [watts], "limit": watts}], "apps": whether the processes on GPUs are known,
"gpu_error", "network", "fabric": bytes or null, "errors": [text]}.
Processes of a user are read by a child with the identity of the user: the kernel shows others' waits to CAP_SYS_PTRACE only.
Python 3.9, standard library only.
"""

from __future__ import annotations

import glob
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rackwright.remote.programs import process_samples

QUERY = "uuid,index,utilization.gpu,power.draw,enforced.power.limit"
LIMIT = 10
"""Seconds for nvidia-smi, which hangs with a driver that does not respond."""
ANSWERED = (0, 14)
"""Exit statuses of nvidia-smi after rows of all GPUs; 14 warns that the infoROM of one is corrupted (nvidia-smi(1), RETURN VALUE)."""
READINGS = 3
"""Readings of GPUs. Their own sample period is at most 1 s (NVML, nvmlUtilization_t)."""
IB = ("/sys/class/infiniband/*/ports/*/counters/port_xmit_data", "/sys/class/infiniband/*/ports/*/counters/port_rcv_data")
IB_UNIT = 4
"""Bytes of a unit of these counters (Linux, Documentation/ABI/stable/sysfs-class-infiniband)."""
NET = ("/sys/class/net/*/statistics/tx_bytes", "/sys/class/net/*/statistics/rx_bytes")


def start_as(uid: int, gid: int, work: Callable[[], Any]) -> tuple[int, int]:
    """Start a function in a child with the identity of a user; return its process ID and the end of its pipe."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:
        os.close(reading)
        if os.geteuid() == 0 and uid != 0:
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
        answer = work()
    except Exception as error:
        answer = {"error": str(error) or repr(error)}
    try:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(json.dumps(answer).encode())
    finally:
        os._exit(0)


def finish(child: int, reading: int) -> Any:
    """Return what a child has written."""
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    try:
        return json.loads(text)
    except ValueError:
        return {"error": "the process that samples was ended"}


def nvidia_smi(cells: int, *words: str) -> tuple[list[list[str]], str]:
    """Return rows of so many cells, and why GPUs are missing or an empty string. Raise OSError with that message if there is no row."""
    argv = ["nvidia-smi", *words, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(argv, capture_output=True, encoding="utf-8", errors="replace", timeout=LIMIT, check=False)
    except FileNotFoundError:
        raise OSError("nvidia-smi is not installed") from None
    except subprocess.TimeoutExpired:
        raise OSError("nvidia-smi: no answer in " + str(LIMIT) + " s") from None
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]
    rows = [row for row in rows if len(row) == cells]
    if done.returncode in ANSWERED:
        return rows, ""
    said = [line for line in lines if len(line.split(",")) != cells]
    why = "nvidia-smi: " + (said[0].strip() if said else "ended with status " + str(done.returncode))
    if not rows:
        raise OSError(why)
    return rows, why


def number(cell: str) -> float | None:
    """Return the number of a cell; None for `[N/A]`.

    >>> number("69.51"), number("[N/A]")
    (69.51, None)
    """
    try:
        return float(cell)
    except ValueError:
        return None


class Gpus(threading.Thread):
    """Readings of all GPUs while processes are sampled."""

    def __init__(self, seconds: float) -> None:
        super().__init__(daemon=True)
        self.pause = seconds / READINGS
        self.found: dict[str, dict[str, Any]] = {}
        self.owners: dict[int, list[str]] | None = None
        self.error = ""

    def run(self) -> None:
        """Read, and keep the first error."""
        try:
            for _ in range(READINGS):
                begun = time.monotonic()
                rows, why = nvidia_smi(5, "--query-gpu=" + QUERY)
                self.error = self.error or why
                for cells in rows:
                    gpu = self.found.setdefault(cells[0], {"uuid": cells[0], "index": cells[1], "busy": [], "power": []})
                    gpu["busy"].append(number(cells[2]))
                    gpu["power"].append(number(cells[3]))
                    gpu["limit"] = number(cells[4])
                time.sleep(max(0.0, self.pause - (time.monotonic() - begun)))
            owners: dict[int, list[str]] = {}
            for cells in nvidia_smi(2, "--query-compute-apps=pid,gpu_uuid")[0]:
                if cells[0].isdigit():
                    owners.setdefault(int(cells[0]), []).append(cells[1])
            self.owners = owners
        except OSError as error:
            self.error = self.error or str(error)


def counted(patterns: tuple[str, ...]) -> int | None:
    """Return the sum of counters, or None if the node has none."""
    values = []
    for path in (path for pattern in patterns for path in glob.glob(pattern) if "/net/lo/" not in path):
        try:
            with open(path, encoding="ascii") as file:
                values.append(int(file.read()))
        except (OSError, ValueError):
            continue
    return sum(values) if values else None


def traffic() -> dict[str, int | None]:
    """Return the bytes that the node's InfiniBand ports and network interfaces have moved."""
    fabric = counted(IB)
    return {"fabric": None if fabric is None else fabric * IB_UNIT, "network": counted(NET)}


def merge(answers: list[Any], owners: Mapping[int, list[str]]) -> dict[str, Any]:
    """Return the answers of all children as one, with the GPUs of each rank."""
    found: dict[str, Any] = {"ranks": [], "jobs": {}, "errors": [one["error"] for one in answers if "error" in one]}
    for one in (one for one in answers if "error" not in one):
        for rank in one["ranks"]:
            members = rank.pop("members")
            found["ranks"].append({**rank, "gpus": sorted({uuid for pid in members for uuid in owners.get(pid, [])})})
        for job, new in one["jobs"].items():
            old = found["jobs"].get(job)
            found["jobs"][job] = {key: old[key] + new[key] if key != "seconds" else new[key] for key in new} if old else new
    return found


def main(request: dict[str, Any], proc: str = "/proc") -> dict[str, Any]:
    """Sample for the given seconds."""
    groups = process_samples.pids_by_owner(request["jobs"].values(), proc)
    before = traffic()
    children = []
    for (uid, gid), pids in groups.items():
        own = {**request, "jobs": [job for job, owner in request["jobs"].items() if owner == uid]}
        children.append(start_as(uid, gid, partial(process_samples.sample, pids, own, proc)))
    gpus = Gpus(request["seconds"])
    if request["gpus"]:
        gpus.start()
    answers = [finish(*child) for child in children]
    if request["gpus"]:
        gpus.join((READINGS + 1) * LIMIT)
    after = traffic()
    moved = {name: None if None in (old, after[name]) else int(after[name] or 0) - int(old or 0) for name, old in before.items()}
    known = {"gpus": list(gpus.found.values()), "apps": gpus.owners is not None, "gpu_error": gpus.error}
    return {**merge(answers, gpus.owners or {}), **known, **moved}
