"""A process of its own session that ends a lease at its deadline: `python -m rackwright.operations.chaos.watchdog STACK ID`.

It survives a SIGKILL of the command, the end of its terminal and of its process group. It ends with its lease.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from typing import Final

from rackwright import layout
from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.operations.chaos import lease as leases

_MODULE: Final = "rackwright.operations.chaos.watchdog"
_POLL: Final = 1.0
"""Seconds between two reads of the lease. Chosen: short against the seconds that a failure lasts."""
_PAUSE: Final = 5.0
"""Seconds until a node that did not start is started again."""
_ATTEMPTS: Final = 60
"""Attempts, five minutes in all; afterwards the next command of the stack tries again."""


def start(lease: leases.Lease) -> None:
    """Start the watchdog of a lease, before the failure."""
    environment = {**os.environ, "RACKWRIGHT_HOME": str(paths.home()), "PYTHONPATH": str(layout.IMPORT_ROOT)}
    with open(paths.chaos(lease.stack) / "watchdog.log", "ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", _MODULE, lease.stack, lease.id],
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


async def watch(stack: str, id_: str) -> None:
    """Wait until a lease is ended or due, and end it then."""
    attempts = _ATTEMPTS
    while lease := next((one for one in leases.open_leases(stack) if one.id == id_), None):
        if not lease.is_due:
            await asyncio.sleep(_POLL)
            continue
        try:
            await leases.end(lease, "watchdog")
        except RackwrightError as error:
            attempts -= 1
            sys.stderr.write(f"{time.strftime('%FT%T')} {id_}: {error}\n")
            if not attempts:
                return
            await asyncio.sleep(_PAUSE)


if __name__ == "__main__":
    asyncio.run(watch(sys.argv[1], sys.argv[2]))
