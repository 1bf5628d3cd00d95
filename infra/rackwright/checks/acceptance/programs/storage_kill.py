"""Test whether data that fsync confirmed exists after its writer was killed.

`write FOLDER`: a child writes records, each with fsync, and is killed by SIGKILL. `read FOLDER NODE…`: the records that exist now.
Prints one line of JSON: {"acknowledged"} or {"found": {"NODE": whole records}}, or {"unknown": why}.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from typing import Any

RECORD = 4096
MIN_RECORDS = 20
"""Records that must be confirmed before the child is killed."""
SECONDS = 60
"""Seconds for the records. Chosen: a file system that needs longer for them is unknown."""


def record(node: str, number: int) -> bytes:
    """Return a record that no other node writes."""
    seed = f"{node} {number} ".encode()
    return (seed + hashlib.sha256(seed).hexdigest().encode()).ljust(RECORD, b".")


def write(path: str, node: str, pipe: int) -> None:
    """Write records without end; send the number of each after fsync has confirmed it."""
    number = 0
    with open(path, "wb", buffering=0) as file:
        while True:
            file.write(record(node, number))
            os.fsync(file.fileno())
            number += 1
            os.write(pipe, b"%d\n" % number)


def kill_a_writer(folder: str, node: str) -> dict[str, Any]:
    """Return how many records were confirmed before the child was killed while writing."""
    path = os.path.join(folder, "kill-" + node)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            write(path, node, writing)
        except OSError as error:
            os.write(writing, (f"{error}\n").encode())
        os._exit(1)
    os.close(writing)
    received, limit = b"", time.monotonic() + SECONDS
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while received.count(b"\n") < MIN_RECORDS and time.monotonic() < limit:
            more = pipe.read(4096)
            if not more:
                break
            received += more
        os.kill(child, signal.SIGKILL)
        received += pipe.read() or b""
    os.waitpid(child, 0)
    lines = received.decode().split("\n")[:-1]
    if not lines or not lines[-1].isdecimal() or int(lines[-1]) < MIN_RECORDS:
        return {"unknown": lines[-1] if lines and not lines[-1].isdecimal() else f"{len(lines)} records within {SECONDS} s"}
    return {"acknowledged": int(lines[-1])}


def whole_records(folder: str, node: str) -> int:
    """Return how many of a node's records exist, in order and unchanged."""
    number = 0
    with open(os.path.join(folder, "kill-" + node), "rb") as file:
        while file.read(RECORD) == record(node, number):
            number += 1
    return number


def main(what: str, folder: str, *nodes: str) -> dict[str, Any]:
    """Write or read."""
    try:
        if what == "write":
            return kill_a_writer(folder, os.environ.get("NODE_NAME", "node"))
        return {"found": {node: whole_records(folder, node) for node in nodes}}
    except OSError as error:
        return {"unknown": str(error)}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
