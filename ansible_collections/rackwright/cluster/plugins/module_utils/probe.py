"""Probe a port, a command or a path on this node."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from ansible_collections.rackwright.cluster.plugins.module_utils.slowness import communicate_patiently, slowness

ANSWER_TIMEOUT = 5  # seconds one probe may take, longer on a slow node


def ticks(until: float) -> Iterator[float]:
    """Yield the times of retries, at growing intervals, at least once.

    At the end of the time, a slow node gets a multiple of it: an emulated one starts a database in minutes.
    """
    pause, began, extended = 0.02, time.monotonic(), False
    while True:
        now = time.monotonic()
        yield now
        if now > until:
            if extended or until <= began:
                return
            extended, until = True, began + (until - began) * slowness()
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
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8", errors="replace"
        )
    except OSError as error:
        return False, f"`{command[0]}` cannot be run ({error.strerror})"
    try:
        _, complaint = communicate_patiently(child, ANSWER_TIMEOUT)
    except subprocess.TimeoutExpired as error:
        return None, f"`{' '.join(command)}` did not answer within {error.timeout:.0f} s"
    return child.returncode == 0, f"`{' '.join(command)}` failed: {complaint.strip() or f'exit code {child.returncode}'}"
