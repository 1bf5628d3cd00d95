"""A program with two ranks that wait for each other in each step, as those of a training run do: the main thread waits in a futex."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

STEP: Final = 0.02
"""Seconds of work in a step."""
PROGRAM: Final = f"""
import queue, socket, sys, threading, time
rank, host, port, slow = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
if rank == 0:
    peer = socket.create_server((host, port)).accept()[0]
else:
    while True:
        try:
            peer = socket.create_connection((host, port))
            break
        except OSError:
            time.sleep(0.05)
arrived = queue.SimpleQueue()
def receive():
    while peer.recv(1):
        arrived.put(1)
threading.Thread(target=receive, daemon=True).start()
while True:
    end = time.monotonic() + {STEP}
    while time.monotonic() < end:
        pass
    time.sleep(slow)
    peer.sendall(b"x")
    arrived.get()
"""
"""Arguments: rank, address and port of rank 0, seconds that this rank sleeps in each step."""


def start_ranks(port: int, *, slow: float) -> list[subprocess.Popen[bytes]]:
    """Start both ranks of job 7 on this machine; rank 1 is slow."""
    return [
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", PROGRAM, str(rank), "127.0.0.1", str(port), str(slow * rank)],
            env={"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "RANK": str(rank), "WORLD_SIZE": "2"},
        )
        for rank in range(2)
    ]
