"""Measure how fast all CPUs of a node copy main memory at once: as STREAM's Copy, by libc's memmove in one process per CPU.

Prints one line of JSON: {"processes", "value", "wrong": processes whose copy differs}; GB/s, read and written bytes counted.
Uses two buffers of --mib per process.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import time
from typing import Any


def arguments() -> argparse.Namespace:
    """Return the options. Buffers should be several times the size of the last cache, as STREAM's run rules require."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5)
    return parser.parse_args()


def copier(mib: int, seconds: float, barrier: Any, results: Any) -> None:
    """Copy for a number of seconds, starting at the same time as all others."""
    size = mib * 2**20
    source, target = (ctypes.create_string_buffer(os.urandom(2**20) * mib, size), ctypes.create_string_buffer(size))
    ctypes.memmove(target, source, size)
    barrier.wait()
    begun, rounds = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        ctypes.memmove(target, source, size)
        rounds += 1
    results.put((2 * size * rounds / (time.perf_counter() - begun), source.raw == target.raw))


def main() -> dict[str, Any]:
    """Run one process per CPU that this job may use."""
    options = arguments()
    count = len(os.sched_getaffinity(0))
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(count), context.Queue()
    workers = [context.Process(target=copier, args=(options.mib, options.seconds, barrier, results), daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    try:
        found = [results.get(timeout=options.seconds + 120) for _ in workers]
    except Exception as error:
        return {"unknown": f"a process gave no result: {error!r}"}
    for worker in workers:
        worker.join()
    return {"processes": count, "value": sum(rate for rate, _ in found) / 1e9, "wrong": sum(not same for _, same in found)}


if __name__ == "__main__":
    print(json.dumps(main()))
