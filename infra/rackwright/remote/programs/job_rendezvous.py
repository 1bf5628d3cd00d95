"""Run in a container of the smoke run's PyTorchJob, in place of PyTorch: each worker reaches the master by its name once.

Input: the first argument, seconds until it gives up. Output: the variables that the container was given, the ranks that it met and the last
error, as one JSON document. Exit code 0 if it met them all: the master every worker, a worker the master.
Python 3.9, standard library only.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

GIVEN = (
    *("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"),
    *("PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE"),
)
"""Variables that the operator gives each container of a job with a master (pkg/controller.v1/pytorch: envvar.go, master.go)."""


def meet_workers(port: int, workers: int, ends: float) -> tuple[list[str], str]:
    """Tell each worker that connects the rank 0; return the ranks that connected, and the last error."""
    met: set[str] = set()
    said = ""
    with socket.create_server(("", port)) as listening:
        while len(met) < workers and time.monotonic() < ends:
            listening.settimeout(max(0.1, ends - time.monotonic()))
            try:
                connection = listening.accept()[0]
                with connection:
                    connection.settimeout(2)
                    met.add(connection.recv(16).decode("ascii", "replace"))
                    connection.sendall(b"0")
            except OSError as error:
                said = str(error)
    return sorted(met), said


def meet_master(address: str, port: int, rank: str, ends: float) -> tuple[list[str], str]:
    """Tell the master this rank; return the rank that it answers, and the last error. Retry, as PyTorch's store does."""
    said = ""
    while True:
        try:
            with socket.create_connection((address, port), timeout=2) as connection:
                connection.sendall(rank.encode())
                answer = connection.recv(16).decode("ascii", "replace")
                if answer:
                    return [answer], ""
                said = "the master closed the connection"
        except OSError as error:
            said = address + ":" + str(port) + ": " + str(error)
        if time.monotonic() > ends:
            return [], said
        time.sleep(0.3)


def run(given: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """Meet the other ranks."""
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK") if not given.get(name)]
    if missing:
        return {"given": dict(given), "met": [], "said": "the container was not given " + ", ".join(missing), "complete": False}
    ends, port, size = time.monotonic() + seconds, int(given["MASTER_PORT"]), int(given["WORLD_SIZE"])
    if given["RANK"] == "0":
        met, said = meet_workers(port, size - 1, ends)
        return {"given": dict(given), "met": met, "said": said, "complete": len(met) == size - 1}
    met, said = meet_master(given["MASTER_ADDR"], port, given["RANK"], ends)
    return {"given": dict(given), "met": met, "said": said, "complete": bool(met)}


def main(seconds: str) -> int:
    """Meet the other ranks, print the document, and return the exit code."""
    document = run({name: os.environ[name] for name in GIVEN if name in os.environ}, float(seconds))
    print(json.dumps(document), flush=True)
    return 0 if document["complete"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
