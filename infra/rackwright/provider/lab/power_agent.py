"""The power agent of a lab: stops and starts worker containers on the requests of Slurm's power saving.

usage: python -m rackwright.provider.lab.power_agent STACK CONTROLLER NODE …
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
import sys
from collections.abc import Collection
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from typing import Final

from rackwright.drivers.podman import STACK_LABEL, Container, inspect, run_checked
from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.processes import start_time
from rackwright.provider.lab.power_requests import Request, is_met, refusal, requests, settle

_POLL_SECONDS: Final = 1.0
"""Seconds between polls for requests. Chosen: small against the tens of seconds in which a container becomes a node."""
_ABSENT_POLL_SECONDS: Final = 5.0
"""Seconds between polls for a controller that is not running."""
_LOG_BYTES: Final = 128 * 1024
"""Bytes of a log file, of which two are kept. Chosen: some thousand lines."""
_MAX_LOGGED: Final = 1000
"""Number of failures on record, so that each is logged once."""
log = logging.getLogger("rackwright.power")


async def fulfil(stack: str, request: Request, found: Container) -> None:
    """Stop or start the container; the marks make a refresh ignore the change."""
    asleep, woken = paths.suspended_file(stack, request.node), paths.resumed_file(stack, request.node)
    for mark in (asleep, woken):
        mark.parent.mkdir(exist_ok=True)
    asleep.touch()
    if found.running and not is_met(request, found):
        await run_checked("stop", "--time", "10", found.name)
    if request.action == "suspend":
        return
    if not is_met(request, found):
        await run_checked("start", found.name)
    started = await inspect(found.name)
    woken.write_text(started.instance_uid if started else "")
    asleep.unlink(missing_ok=True)


class Agent:
    """Polls and fulfils requests until it is stopped or its stack is deleted; `lock` is the descriptor of its lock file."""

    def __init__(self, stack: str, controller: str, nodes: Collection[str], lock: int) -> None:
        self.stack, self.controller, self.nodes, self.lock = stack, controller, frozenset(nodes), lock
        self.stopped = asyncio.Event()
        self._first = (0, 0)
        self._logged: dict[Request | None, str] = {}

    async def run(self) -> None:
        """Run until SIGTERM, SIGINT, the end of the stack's last container, or the removal of its folder in the state directory."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.stopped.set)
        while not self.stopped.is_set() and self._is_known():
            pause = _POLL_SECONDS
            try:
                root = await self._root()
                if root is not None:
                    await asyncio.gather(*(self._serve(root, request) for request in requests(root, self.nodes)))
                elif not await run_checked("ps", "--all", "--quiet", "--filter", f"label={STACK_LABEL}={self.stack}"):
                    log.info("no container of the stack is left")
                    return
                else:
                    pause = _ABSENT_POLL_SECONDS
            except (RackwrightError, OSError) as error:
                self._log_once(None, str(error))
                pause = _ABSENT_POLL_SECONDS
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopped.wait(), pause)

    def _is_known(self) -> bool:
        """Return whether the lock file is still at its path: an agent that cannot be found must not act."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self.lock), os.stat(paths.power_lock(self.stack)))
        return False

    async def _root(self) -> str | None:
        """Return the controller's root directory, or None while the controller does not run."""
        if start_time(self._first[0]) != self._first[1]:
            found = await inspect(self.controller)
            own = found is not None and found.running and found.labels.get(STACK_LABEL) == self.stack
            pid = found.pid if found is not None and own else 0
            self._first = (pid, start_time(pid) or 0)
        return f"/proc/{self._first[0]}/root" if self._first[1] else None

    async def _serve(self, root: str, request: Request) -> None:
        """Fulfil a request that is allowed; report a failure once and retry at the next poll."""
        try:
            found = await inspect(f"{self.stack}-{request.node}")
            refused = refusal(self.stack, request.node, found)
            if found is None or refused:
                self._log_once(request, f"refused: {refused}")
                return
            await fulfil(self.stack, request, found)
            settle(root, request)
            log.info("%s: %s", request.node, "asleep" if request.action == "suspend" else "awake")
        except (RackwrightError, OSError) as error:
            self._log_once(request, str(error))

    def _log_once(self, request: Request | None, text: str) -> None:
        """Log an obstacle once, not at every poll."""
        if self._logged.get(request) != text:
            self._logged = {**self._logged, request: text} if len(self._logged) < _MAX_LOGGED else {request: text}
            log.warning("%s%s", f"{request.action} {request.node}: " if request else "", text)


def main(stack: str, controller: str, *nodes: str) -> int:
    """Run as the stack's only agent."""
    os.umask(0o077)
    handler = RotatingFileHandler(paths.power_log(stack), maxBytes=_LOG_BYTES, backupCount=1)
    logging.basicConfig(handlers=[handler], level=logging.INFO, format="%(asctime)s %(message)s")
    logging.raiseExceptions = False  # The folder goes before the agent does.
    with open(paths.power_lock(stack), "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.warning("another agent of the stack is running")
            return 1
        lock.truncate(0)
        lock.write(f"{os.getpid()} {start_time(os.getpid())}")
        lock.flush()
        log.info("started for %s", ", ".join(nodes) or "no node")
        asyncio.run(Agent(stack, controller, nodes, lock.fileno()).run())
        log.info("ended")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
