"""Run a program of nccl-tests and sample the node meanwhile: load of CPUs and GPUs, bytes that each NIC sent.

Arguments: the program and its options. One line of JSON for each task: {"rc", "out", "err", "machine", "efa",
"samples": [{"second", "cpu_busy", "gpu_busy", "sent_bytes"}]};
only the first task of a node takes samples. The program is searched on PATH, then in --folder.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from typing import Any

COUNTER = "/sys/class/infiniband/*/ports/*/counters/port_xmit_data"
WORD = 4
"""Bytes per step of that counter (InfiniBand specification, PortXmitData)."""


ROW = re.compile(r"\s*(\d+(\.\d+)?|\[.*\]|N/A|ERR!)\s*$")
"""A row of `nvidia-smi --format=csv,noheader,nounits`: a number, or what the driver prints in its place."""


def arguments() -> argparse.Namespace:
    """Return the options: program, time limit, sampling interval."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default="/opt/nccl-tests/build")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--every", type=float, default=1.0)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args()


def sent_bytes() -> dict[str, int]:
    """Return the sent bytes per device, summed over its ports. A device with a counter that cannot be read is left out."""
    sent: dict[str, int] = {}
    unread = set()
    for path in glob.glob(COUNTER):
        device = path.split("/")[4]
        try:
            with open(path) as file:
                sent[device] = sent.get(device, 0) + WORD * int(file.read())
        except (OSError, ValueError):
            unread.add(device)
    return {device: count for device, count in sent.items() if device not in unread}


def here() -> dict[str, Any]:
    """Return the machine's product name in the firmware (on EC2 the instance type), and its number of EFA adapters."""
    try:
        with open("/sys/class/dmi/id/product_name") as file:
            machine = file.read().strip()
    except OSError:
        machine = ""
    drivers = [os.path.basename(os.path.realpath(path)) for path in glob.glob("/sys/class/infiniband/*/device/driver")]
    return {"machine": machine, "efa": drivers.count("efa")}


def cpu_times() -> tuple[int, int]:
    """Return the ticks in which CPUs were busy, and all ticks."""
    with open("/proc/stat") as file:
        ticks = [int(tick) for tick in file.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def load(cell: str) -> float | None:
    """Return the load of one GPU; None if the driver does not tell it, for example of a virtual GPU."""
    try:
        return float(cell)
    except ValueError:
        return None


def gpu_busy() -> list[float | None]:
    """Return the load per GPU in per cent, None for one that is not known; empty if there is no source."""
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    # The driver names a GPU that does not respond in a line of its own, and ends with an error.
    return [load(line.strip()) for line in done.stdout.decode(errors="replace").splitlines() if ROW.match(line)]


def watch(samples: list[Any], every: float, ended: threading.Event) -> None:
    """Take samples until the program has ended, and one more."""
    begun, (busy, ticks) = time.monotonic(), cpu_times()
    last = False
    while not last:
        last = ended.wait(every)
        now_busy, now_ticks = cpu_times()
        share = (now_busy - busy) / max(1, now_ticks - ticks)
        busy, ticks = now_busy, now_ticks
        samples.append(
            {"second": round(time.monotonic() - begun, 2), "cpu_busy": round(share, 3), "gpu_busy": gpu_busy(), "sent_bytes": sent_bytes()}
        )


def main() -> dict[str, Any]:
    """Run the program and return its result."""
    options = arguments()
    name, *rest = options.command
    program = shutil.which(name) or shutil.which(name, path=options.folder)
    if program is None:
        return {"rc": 127, "out": "", "err": f"{name} is neither on PATH nor in {options.folder}", "samples": []}
    samples: list[Any] = []
    ended = threading.Event()
    watcher = threading.Thread(target=watch, args=(samples, options.every, ended), daemon=True)
    if os.environ.get("LOCAL_RANK", "0") == "0":
        watcher.start()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            status = subprocess.run([program, *rest], stdout=out, stderr=err, timeout=options.seconds, check=False).returncode
        except subprocess.TimeoutExpired:
            status = 124
        ended.set()
        if watcher.is_alive():
            watcher.join(30)
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode(errors="replace"))
    return dict(here(), rc=status, out=said[0], err=said[1], samples=samples)


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C.UTF-8"  # Tools must print a decimal point.
    print(json.dumps(main()))
