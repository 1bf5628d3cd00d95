"""Slowness of this node, for time limits that must hold on emulated and busy machines, too."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Sequence

REFERENCE = 0.03
"""Duration of a Python start, in seconds, on the machine for which the limits were chosen (infra/rackwright/time_limits.py)."""
MAX_SLOWNESS = 15
"""Factor beyond which limits no longer grow."""


def slowness() -> int:
    """Return the factor by which time limits grow on this node, 1 to MAX_SLOWNESS: the duration of a Python start under its load."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], stdin=subprocess.DEVNULL, check=False)
    return min(max(math.ceil((time.monotonic() - started) / REFERENCE), 1), MAX_SLOWNESS)


def run_patiently(command: Sequence[str], limit: float, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command. Raise TimeoutExpired after `limit` seconds, or after a multiple of it if this node is slow by then."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace", env=env) as child:
        out, err = communicate_patiently(child, limit)
    return subprocess.CompletedProcess(list(command), child.returncode, out, err)


def communicate_patiently(child: subprocess.Popen[str], limit: float) -> tuple[str, str]:
    """Return the output of a process. Kill it and raise TimeoutExpired after `limit` seconds, or a multiple of it if this node is slow."""
    try:
        return child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        factor = slowness()
    try:
        if factor > 1:
            return child.communicate(timeout=limit * (factor - 1))
    except subprocess.TimeoutExpired:
        pass
    child.kill()
    raise subprocess.TimeoutExpired(child.args, limit * factor)
