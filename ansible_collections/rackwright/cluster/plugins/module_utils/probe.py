"""Probe a port, a command or a path on this node."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

ANSWER_TIMEOUT = 5  # seconds one probe may take


def ticks(until: float) -> Iterator[float]:
    """Yield the times of retries, at growing intervals, at least once."""
    pause = 0.02
    while True:
        now = time.monotonic()
        yield now
        if now > until:
            return
        time.sleep(pause)
        pause = min(pause * 1.5, 0.25)


def probe(question: dict[str, Any]) -> tuple[bool | None, str]:
    """Return whether the subject answers (None after a timeout), and the error."""
    if question["tcp"]:
        return probe_tcp(*question["tcp"])
    if question["command"]:
        return probe_command(question["command"])
    return os.path.exists(question["path"]), f"{question['path']} does not exist"


def probe_tcp(host: str, port: str) -> tuple[bool | None, str]:
    """Return whether a connection is accepted, and the error."""
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_TIMEOUT).close()
    except OSError as error:
        return False, f"{host}:{port} does not answer ({error})"
    return True, ""


def probe_command(command: list[str]) -> tuple[bool | None, str]:
    """Return whether a command succeeds, and the error. A hanging command is abandoned: a process stuck in the kernel cannot be reaped."""
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        return False, f"`{command[0]}` cannot be run ({error.strerror})"
    try:
        _, complaint = child.communicate(timeout=ANSWER_TIMEOUT)
    except subprocess.TimeoutExpired:
        child.kill()
        return None, f"`{' '.join(command)}` did not answer within {ANSWER_TIMEOUT} s"
    return child.returncode == 0, f"`{' '.join(command)}` failed: {complaint.strip() or f'exit code {child.returncode}'}"
