"""Run tests of Slurm's suite side by side on a login node, each with a limit.

The first line of standard input is the order, a JSON object:
`folder` (of the tests), `logs` (folder), `expect` (program), `workers`, `tests` (test -> limit in seconds),
`patience` (seconds that a test waits for an idle node).
Each test that ends gives one JSON line: `test`, `status` (null: ended at its limit), `seconds`, `log` (its end).
When standard input ends, because the other side was stopped, the running tests are ended and no other starts.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

LOG_END = 65536
"""Bytes of a log that are sent. The reason of a result is logged last; the whole log is in the folder."""
NO_IDLE_NODE = "requires there to be at least one idle node"
"""What the suite's start (`_test_init` in `globals`) logs when other tests use every node: no result, so the test is tried again."""
IDLE_NODES = ("sinfo", "-h", "-N", "-t", "idle", "-o", "%N")
GRACE = 10
"""Seconds between SIGTERM and SIGKILL: expect closes its terminals, and srun then ends its job."""


class Runner:
    """The running tests; `stop` ends them all."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.children: set[subprocess.Popen[bytes]] = set()
        self.stopped = False
        self.lock = threading.Lock()

    def run(self, test: str, limit: float) -> dict[str, Any] | None:
        """Run one test as soon as a node is idle; return its row, or None if the runner was stopped first."""
        deadline = time.monotonic() + self.order["patience"]
        while True:
            while not has_idle_node() and time.monotonic() < deadline and not self.stopped:
                time.sleep(1)
            row = self.attempt(test, limit)
            if row is None or NO_IDLE_NODE not in row["log"] or time.monotonic() >= deadline:
                return row

    def attempt(self, test: str, limit: float) -> dict[str, Any] | None:
        """Run one test; return its row, or None if the runner was stopped first."""
        log = os.path.join(self.order["logs"], test + ".log")
        started = time.monotonic()
        with open(log, "wb") as output:
            with self.lock:
                if self.stopped:
                    return None
                child = subprocess.Popen(
                    [self.order["expect"], "test" + test],
                    cwd=self.order["folder"],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                self.children.add(child)
            status = self.wait(child, limit)
        return {"test": test, "status": status, "seconds": time.monotonic() - started, "log": end_of(log)}

    def wait(self, child: subprocess.Popen[bytes], limit: float) -> int | None:
        """Return the exit status; None after the limit."""
        try:
            return child.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            end(child)
            return None
        finally:
            with self.lock:
                self.children.discard(child)

    def stop(self) -> None:
        """End every running test and start no other."""
        with self.lock:
            self.stopped = True
            running = list(self.children)
        for child in running:
            end(child)


def has_idle_node() -> bool:
    """Return whether a node has no jobs."""
    return bool(subprocess.run(IDLE_NODES, stdout=subprocess.PIPE, check=False).stdout.strip())


def end(child: subprocess.Popen[bytes]) -> None:
    """End a test and what it started in its session."""
    for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, None)):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            return
        try:
            child.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            continue


def end_of(log: str) -> str:
    """Return the end of a log as text."""
    with open(log, "rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - LOG_END))
        return file.read().decode("utf-8", "replace")


def stop_at_end_of_input(runner: Runner) -> None:
    """Stop the runner when standard input ends."""
    sys.stdin.read()
    runner.stop()


def main() -> None:
    """Run the order of standard input."""
    runner = Runner(json.loads(sys.stdin.readline()))
    threading.Thread(target=stop_at_end_of_input, args=(runner,), daemon=True).start()
    with concurrent.futures.ThreadPoolExecutor(runner.order["workers"]) as pool:
        runs = [pool.submit(runner.run, test, limit) for test, limit in runner.order["tests"].items()]
        for run in concurrent.futures.as_completed(runs):
            if run.result():
                print(json.dumps(run.result()), flush=True)


if __name__ == "__main__":
    main()
