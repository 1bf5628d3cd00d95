"""Time limits of machines and their BMCs, and the slowness of this machine: limits must hold on slow and busy machines, too."""

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

BOOT: Final = 1200.0
"""Seconds from power-on to a login: the self-test of machines with terabytes of memory and eight GPUs takes many minutes. The reboot of a
rolling update has the same limit (playbooks/drain-nodes.yml)."""
SHUTDOWN: Final = 600.0
"""Seconds for an operating system that was asked to shut down (OpenStack Ironic, conductor.soft_power_off_timeout: 600 s)."""
POWER_CHANGE: Final = 300.0
"""Seconds until a BMC reports the state that was requested. Ironic waits 60 s (conductor.power_state_change_timeout); RackN waits 300 s,
because some machines report `Off` while they still shut down, and drop a request to power on (ipmi/power-confirm-timeout)."""
BMC_CONNECT: Final = 10.0
"""Seconds for a connection to a BMC. Chosen: the first one in a row is often slow, and a network without a route answers at once."""
BMC_ANSWER: Final = 60.0
"""Seconds for one answer of a BMC: the default of sushy. The first login after a start was seen to take 12 s (xcat2/xcat-core#3310)."""


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
