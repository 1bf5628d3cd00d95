"""Run on the node, a worker, as root: end a rank of a training run at once, in a job of Slurm or in a pod.

Input: {"folder": the run's folder}. Output: {"pid"}, null if no rank of the run is there; the last started one if there are several.
Python 3.9, standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from typing import Any

TRAIN = "rackwright.workloads.training.train"
LAUNCH = "rackwright.workloads.training.launch"
"""Module of the launcher, whose arguments contain those of the ranks."""


def is_rank(arguments: Sequence[str], folder: str) -> bool:
    """Return whether a process is a rank of the run, by its arguments."""
    return TRAIN in arguments and LAUNCH not in arguments and folder in arguments


def ranks(folder: str, processes: str = "/proc") -> list[int]:
    """Return the process ids of the run's ranks on this node, the last started one last."""
    found = []
    for name in filter(str.isdigit, os.listdir(processes)):
        with contextlib.suppress(OSError):
            with open(os.path.join(processes, name, "cmdline"), "rb") as file:
                arguments = file.read().decode(errors="replace").split("\0")
            if is_rank(arguments, folder):
                found.append(int(name))
    return sorted(found)


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Kill one rank."""
    found = ranks(request["folder"])
    if not found:
        return {"pid": None}
    os.kill(found[-1], signal.SIGKILL)
    return {"pid": found[-1]}
