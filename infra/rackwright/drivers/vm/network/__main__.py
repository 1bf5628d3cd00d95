"""The network of a stack's virtual machines.

usage: python -m rackwright.drivers.vm.network FOLDER

Prints `ready` once the machines can send. Logs to network.log in FOLDER.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

from rackwright.drivers.vm.network.service import Service, lock_folder
from rackwright.errors import InputError, RackwrightError

READY: Final = "ready"
LOG: Final = "network.log"
_LOG_BYTES: Final = 128 * 1024
"""Bytes of a log file, of which two are kept. Chosen: some thousand lines."""
log = logging.getLogger("rackwright.vm.network")


def main(arguments: list[str]) -> int:
    """Run the process; return its exit status."""
    os.umask(0o077)
    try:
        if len(arguments) != 1:
            raise InputError("expected one folder", hint="usage: python -m rackwright.drivers.vm.network FOLDER")
        folder = Path(arguments[0]).absolute()
        descriptor = lock_folder(folder)
        os.fchdir(descriptor)
        # Two sockets for each port: the usual soft limit of 1,024 would be that of 500 vNICs.
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        handler = RotatingFileHandler(LOG, maxBytes=_LOG_BYTES, backupCount=1)
        logging.basicConfig(handlers=[handler], level=logging.INFO, format="%(asctime)s %(message)s")
        logging.raiseExceptions = False  # The folder may be removed before the process ends.
        asyncio.run(_run(folder, descriptor))
    except RackwrightError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


async def _run(folder: Path, descriptor: int) -> None:
    service, ready = Service(folder, descriptor), asyncio.Event()
    running = asyncio.create_task(service.run(ready))
    reporting = asyncio.create_task(ready.wait())
    await asyncio.wait((running, reporting), return_when=asyncio.FIRST_COMPLETED)
    reporting.cancel()
    if ready.is_set():
        log.info("started: %d ports, %d cables", len(service.topology.ports), len(service.topology.cables))
        _report_ready()
    await running
    log.info("ended")


def _report_ready() -> None:
    """Tell the client, which may end any time from now on: nothing is written to its pipes after that."""
    print(READY, flush=True)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(null, stream)
    os.close(null)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
