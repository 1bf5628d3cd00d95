"""The service on a controller that switches machines off and on for Slurm's power saving, through their BMCs.

Run on the node as the program of an archive (archive.py): `rackwright-bmc-power SETTINGS [FOLDER]`. SETTINGS is a JSON file with `nodes`
(by name: the fields of BmcLogin, and `kind`), `suspend_timeout_s` and `resume_timeout_s`. In FOLDER, Slurm's programs write one file for
each request (roles/slurm_controller/README.md, "Power saving").
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rackwright.drivers.bmc.access import BmcError, BmcLogin, BmcUnavailableError, PowerControl, PowerState
from rackwright.drivers.bmc.ipmi import IpmiPower
from rackwright.drivers.bmc.redfish import RedfishPower
from rackwright.time_limits import POWER_CHANGE

_FOLDER: Final = Path("/var/lib/rackwright/power")
_ACTIONS: Final = ("resume", "suspend")
_POLL: Final = 2.0
"""Seconds between two reads of the folder, as those of Slurm (slurm.conf, power_save_interval)."""
_STATE_POLL: Final = 5.0
"""Seconds between two queries of a BMC that changes a machine's power. Chosen: some keep a log entry for each login."""
_REPEAT: Final = 30.0
"""Seconds after which a request to power on is repeated: some machines report `Off` while they still shut down, and drop it."""
_RETRY: Final = 10.0
"""Seconds until the next attempt at a BMC that does not answer, doubled each time. Chosen."""
_REFUSED: Final = 300.0
"""Seconds until the next attempt at a BMC that refuses, and the longest between two: BMCs lock users out after a few attempts. Chosen."""
_STARTED_AT_ONCE: Final = 16
"""Machines that power on at a time. Chosen: servers of a rack that start together draw their highest current together."""
_THREADS: Final = 64
"""BMCs that are called at a time: calls of Redfish wait in threads, and those of dead BMCs for long."""


@dataclass(frozen=True, slots=True)
class PowerRequest:
    """The latest request for a node, and its time (ns since 1970)."""

    action: str
    node: str
    requested_ns: int


class RequestReplacedError(Exception):
    """A newer request replaced one that is being executed."""


def read_requests(folder: Path, nodes: Mapping[str, Any]) -> dict[str, PowerRequest]:
    """Return the latest request by node. Links and names of other nodes are ignored."""
    found: dict[str, PowerRequest] = {}
    for action in _ACTIONS:
        for node in nodes:
            try:
                status = os.lstat(folder / action / node)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode) and (node not in found or status.st_mtime_ns > found[node].requested_ns):
                found[node] = PowerRequest(action, node, status.st_mtime_ns)
    return found


def delete_request(folder: Path, request: PowerRequest) -> None:
    """Delete an executed request, unless a newer one has replaced it."""
    file = folder / request.action / request.node
    try:
        if os.lstat(file).st_mtime_ns == request.requested_ns:
            file.unlink()
    except FileNotFoundError:
        pass


class PowerService:
    """Executes the requests of all nodes, those of a node one after the other."""

    def __init__(
        self, folder: Path, nodes: Mapping[str, Mapping[str, Any]], suspend_s: float, resume_s: float, *, poll: float = _STATE_POLL
    ) -> None:
        self._folder, self._nodes, self._shutdown, self._poll = folder, nodes, suspend_s, poll
        self._valid_s = {"suspend": suspend_s, "resume": resume_s}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._not_before: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._starts = asyncio.Semaphore(_STARTED_AT_ONCE)

    async def run(self) -> None:
        """Execute requests forever. An unexpected error ends the program, which systemd starts again."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
        while True:
            self.start_requests()
            await asyncio.sleep(_POLL)

    def start_requests(self) -> list[asyncio.Task[None]]:
        """Start each request whose node has none running, and return all tasks that run.

        A request that is older than the time for which Slurm waits is deleted: jobs may run on the node since.
        """
        now = asyncio.get_running_loop().time()
        for node, task in list(self._running.items()):
            if task.done():
                del self._running[node]
                task.result()
        for node, request in read_requests(self._folder, self._nodes).items():
            if node in self._running or now < self._not_before.get(node, 0.0):
                continue
            if time.time() - request.requested_ns / 1e9 > self._valid_s[request.action]:
                report(f"{request.action} {node}: older than {self._valid_s[request.action]:.0f} s; not executed")
                delete_request(self._folder, request)
            else:
                self._running[node] = asyncio.create_task(self._execute(request))
        return list(self._running.values())

    async def _execute(self, request: PowerRequest) -> None:
        """Execute one request; where the BMC does not let it, leave the file for the next attempt."""
        control = connect(request.node, self._nodes[request.node])
        try:
            await (self._power_off if request.action == "suspend" else self._power_on)(control, request)
            delete_request(self._folder, request)
            self._failures.pop(request.node, None)
            report(f"{request.action} {request.node}: done")
        except RequestReplacedError:
            report(f"{request.action} {request.node}: replaced by a newer request")
        except BmcUnavailableError as error:
            failures = self._failures[request.node] = self._failures.get(request.node, 0) + 1
            self._postpone(request, error.cause, min(_RETRY * 2 ** (failures - 1), _REFUSED))
        except BmcError as error:
            self._postpone(request, f"{error.cause} ({error.hint})", _REFUSED)
        finally:
            await close(control)

    def _postpone(self, request: PowerRequest, cause: str, seconds: float) -> None:
        self._not_before[request.node] = asyncio.get_running_loop().time() + seconds
        report(f"{request.action} {request.node}: {cause}; next attempt in {seconds:.0f} s")

    async def _power_off(self, control: PowerControl, request: PowerRequest) -> None:
        """Shut the machine down. Cut its power when the time has passed after which Slurm takes it for off: no job runs on it."""
        if await control.state() is PowerState.OFF:
            return
        await control.shut_down()
        if await self._reaches(control, request, PowerState.OFF, self._shutdown):
            return
        report(f"{request.action} {request.node}: not shut down after {self._shutdown:.0f} s; cutting the power")
        await self._switch(control, request, control.force_off, PowerState.OFF)

    async def _power_on(self, control: PowerControl, request: PowerRequest) -> None:
        """Power the machine on. One that runs is powered off first, because Slurm waits for a boot after its request."""
        await self._power_off(control, request)
        async with self._starts:
            await self._switch(control, request, control.power_on, PowerState.ON)

    async def _switch(self, control: PowerControl, request: PowerRequest, action: Callable[[], Awaitable[None]], goal: PowerState) -> None:
        """Repeat an action until the BMC reports the state. Raises BmcUnavailableError if it does not in time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + POWER_CHANGE
        while True:
            await action()
            if await self._reaches(control, request, goal, _REPEAT):
                return
            if loop.time() >= until:
                raise BmcUnavailableError(f"the BMC does not report `{goal.value}` after {POWER_CHANGE:.0f} s", path=request.node)

    async def _reaches(self, control: PowerControl, request: PowerRequest, goal: PowerState, limit: float) -> bool:
        """Wait until the BMC reports a state; return whether it did in time. Raises RequestReplacedError for a newer request."""
        loop = asyncio.get_running_loop()
        until = loop.time() + limit
        while True:
            if await control.state() is goal:
                return True
            if loop.time() >= until:
                return False
            if read_requests(self._folder, {request.node: None}).get(request.node, request) != request:
                raise RequestReplacedError
            await asyncio.sleep(min(self._poll, max(0.0, until - loop.time())))


def connect(node: str, bmc: Mapping[str, Any]) -> PowerControl:
    """Return the control of a machine's power."""
    fields = {name: value for name, value in bmc.items() if name != "kind"}
    login = BmcLogin(node, **fields)
    return IpmiPower(login) if bmc["kind"] == "ipmi" else RedfishPower(login)


async def close(control: PowerControl) -> None:
    """End the session, whatever the BMC answers."""
    with contextlib.suppress(BmcError, BmcUnavailableError):
        await control.close()


def report(line: str) -> None:
    """Write a line for the journal."""
    print(line, flush=True)


def main() -> None:
    """Execute requests until systemd stops the program."""
    settings = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else _FOLDER
    service = PowerService(folder, settings["nodes"], float(settings["suspend_timeout_s"]), float(settings["resume_timeout_s"]))
    asyncio.run(service.run())
