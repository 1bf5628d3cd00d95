"""Slowness of this machine, for time limits that must hold on slow and busy machines, too."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from typing import Final

_REFERENCE: Final = 0.03
"""Duration of a Python start, in seconds, on the machine for which the limits were chosen; a fast one needs 0.009 (`python
benchmarks/slowness.py`)."""
MAX_SLOWNESS: Final = 15
"""Factor beyond which limits no longer grow."""


def slowness() -> int:
    """Return the factor by which time limits grow on this machine, 1 to MAX_SLOWNESS: the duration of a Python start under its load.

    RACKWRIGHT_SLOWNESS in the environment overrides the measurement.
    """
    given = os.environ.get("RACKWRIGHT_SLOWNESS", "")
    if given.isdigit():
        return min(max(int(given), 1), MAX_SLOWNESS)
    started = time.monotonic()
    subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], stdin=subprocess.DEVNULL, check=False)
    return factor(time.monotonic() - started)


def factor(seconds: float) -> int:
    """Return the factor for a machine that starts Python in so many seconds.

    >>> factor(0.009), factor(0.05), factor(0.2), factor(9.0)
    (1, 2, 7, 15)
    """
    return min(max(math.ceil(seconds / _REFERENCE), 1), MAX_SLOWNESS)
