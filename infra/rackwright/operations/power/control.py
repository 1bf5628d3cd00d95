"""Commands to the power of machines: each machine reaches its state or has a reason why not; none holds up another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from rackwright.drift.host_baseline.boots import expect_reboots
from rackwright.drivers import ssh_connections
from rackwright.drivers.bmc.access import BmcStartingError, BmcUnavailableError, PowerControl, PowerState
from rackwright.errors import RackwrightError, UndeterminedError
from rackwright.inventory import paths
from rackwright.operations.power.machines import BmcMachine, connect, load_machines
from rackwright.operations.power.occupancy import require_free
from rackwright.operations.stack_lock import StackLock
from rackwright.time_limits import BOOT, POWER_CHANGE, SHUTDOWN, slowness

Say = Callable[[str], Awaitable[None]]
_AT_ONCE: Final = 16
"""Machines whose power is changed at a time. Chosen: servers of a rack that start together draw their highest current together."""
_READ_AT_ONCE: Final = 64
"""BMCs that are queried at a time, as connections over SSH."""
_POLL: Final = 5.0
"""Seconds between two queries of a BMC. Chosen: a BMC answers slowly, and some keep a log entry for each login."""
_REPEAT: Final = 30.0
"""Seconds after which a request to power on is repeated: some machines report `Off` while they still shut down, and drop it. A shutdown is
requested once: the second press of a power button could power the machine on again."""
_QUERY: Final = 30.0
"""Seconds for which a query is repeated while a BMC answers that it is starting."""


class Action(StrEnum):
    """What is done with the power of machines."""

    STATUS = "status"
    ON = "on"
    OFF = "off"
    CYCLE = "cycle"


@dataclass(frozen=True, slots=True)
class MachinePower:
    """A machine after a command: its power state, and why the command failed."""

    machine: BmcMachine
    state: PowerState
    remarks: tuple[str, ...] = ()
    problem: str = ""
    undetermined: bool = False


@dataclass(frozen=True, slots=True)
class PowerReport:
    """The result of a command."""

    stack: str
    action: Action
    machines: tuple[MachinePower, ...]

    @property
    def exit_code(self) -> int:
        """Return 0, 1 if a machine is not in the requested state, 3 if a state is unknown."""
        if any(one.undetermined for one in self.machines):
            return UndeterminedError.exit_code
        return RackwrightError.exit_code if any(one.problem for one in self.machines) else 0


def control_power(stack: str, action: Action, nodes: Sequence[str], say: Say, *, force: bool = False) -> PowerReport:
    """Query or change the power of machines; without names, query all.

    force: power off nodes with jobs and nodes in service, and cut the power of a machine that does not shut down in time.
    Raises InputError as `load_machines`; RackwrightError for nodes that may not be powered off; UndeterminedError at Ctrl-C.
    """
    name, machines = load_machines(stack, nodes)
    try:
        return asyncio.run(_control(name, action, machines, say, force=force))
    except KeyboardInterrupt:
        hint = f"run `rackwright power {name} status` for the state of each machine"
        raise UndeterminedError("interrupted", path=f"stack {name}", hint=hint) from None


async def _control(stack: str, action: Action, machines: Sequence[BmcMachine], say: Say, *, force: bool) -> PowerReport:
    names = [machine.node for machine in machines]
    lock = StackLock(stack)
    if action is not Action.STATUS:
        await lock.hold()
    try:
        if action in (Action.OFF, Action.CYCLE) and not force:
            await require_free(stack, names)
        slots = asyncio.Semaphore(_READ_AT_ONCE if action is Action.STATUS else _AT_ONCE)
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_READ_AT_ONCE))  # Calls of Redfish wait in threads.
        factor = await asyncio.to_thread(slowness)
        tasks = (_Machine(stack, machine, say, factor, force=force).run(action, slots) for machine in machines)
        done = tuple(await asyncio.gather(*tasks))
        if action is not Action.STATUS:
            expect_reboots(paths.host_baseline(stack), names)
        return PowerReport(stack, action, done)
    finally:
        lock.release()


class _Machine:
    """One machine within a command."""

    def __init__(self, stack: str, machine: BmcMachine, say: Say, factor: int, *, force: bool) -> None:
        self._stack, self._machine, self._factor, self._force = stack, machine, factor, force
        self._say = say
        self._remarks: list[str] = []

    async def run(self, action: Action, slots: asyncio.Semaphore) -> MachinePower:
        """Return the machine after the action; an error is part of the result."""
        async with slots:
            control: PowerControl | None = None
            try:
                control = connect(self._machine)
                return self._result(await self._do(action, control))
            except RackwrightError as error:
                undetermined = error.exit_code == UndeterminedError.exit_code
                problem = f"{error.cause}" + (f"\n  {error.hint}" if error.hint else "")
                return MachinePower(self._machine, PowerState.UNKNOWN, tuple(self._remarks), problem, undetermined)
            finally:
                if control is not None:
                    await control.close()

    def _result(self, state: PowerState) -> MachinePower:
        unknown = state is PowerState.UNKNOWN
        problem = "the BMC states no power state; it may be starting" if unknown else ""
        return MachinePower(self._machine, state, tuple(self._remarks), problem, unknown)

    async def _do(self, action: Action, control: PowerControl) -> PowerState:
        if action is Action.STATUS:
            return await self._query(control)
        if action in (Action.OFF, Action.CYCLE):
            await self._off(control)
        if action in (Action.ON, Action.CYCLE):
            await self._on(control)
        return PowerState.OFF if action is Action.OFF else PowerState.ON

    async def _query(self, control: PowerControl) -> PowerState:
        """Return the state, also of a BMC that is starting."""
        until = asyncio.get_running_loop().time() + _QUERY * self._factor
        while True:
            try:
                return await control.state()
            except BmcStartingError:
                if asyncio.get_running_loop().time() >= until:
                    raise
            await asyncio.sleep(_POLL)

    async def _off(self, control: PowerControl) -> None:
        """Shut the machine down; cut its power with `force` alone."""
        if await self._query(control) is PowerState.OFF:
            return
        await self._note("shutting down")
        await ssh_connections.close(self._stack, self._machine.node)
        limit = SHUTDOWN * self._factor
        try:
            if await self._reached(control, PowerState.OFF, control.shut_down, limit):
                return
            reason = f"has not shut down within {limit:.0f} s"
        except RackwrightError as error:
            if not self._force or isinstance(error, BmcUnavailableError):
                raise
            reason = f"cannot be shut down: {error.cause}"
        if not self._force:
            hint = "log in and see what keeps it, or add --force to cut its power"
            raise RackwrightError(f"{reason}; its power was not cut", hint=hint)
        await self._note(f"{reason}: cutting its power (--force)")
        if not await self._reached(control, PowerState.OFF, control.force_off, POWER_CHANGE * self._factor):
            raise RackwrightError("is still on after its power was cut", hint="see the log of the BMC")

    async def _on(self, control: PowerControl) -> None:
        """Power the machine on, and wait until it answers over SSH if the stack is up."""
        if await self._query(control) is not PowerState.ON:
            await self._note("powering on")
            await ssh_connections.close(self._stack, self._machine.node)
            if not await self._reached(control, PowerState.ON, control.power_on, POWER_CHANGE * self._factor, repeat=True):
                hint = "see the log of the BMC"
                raise RackwrightError(f"is not on {POWER_CHANGE * self._factor:.0f} s after the request", hint=hint)
        if not _has_ssh(self._stack, self._machine.node):
            self._remarks.append("SSH was not tried: the stack is not up, or the node is out")
            return
        await self._note("is on; waiting for SSH")
        lost = await ssh_connections.connect_all(self._stack, [self._machine.node], within=BOOT)
        if lost:
            cause = f"is on, but does not answer over SSH: {lost[self._machine.node]}"
            raise UndeterminedError(cause, hint="see its console through the BMC")

    async def _reached(
        self, control: PowerControl, goal: PowerState, request: Callable[[], Awaitable[Any]], limit: float, *, repeat: bool = False
    ) -> bool:
        """Request a state and wait until the BMC reports it; return whether it did within the limit, in seconds.

        A BMC that does not answer meanwhile is queried again.
        """
        loop = asyncio.get_running_loop()
        until, requested = loop.time() + limit, None
        while True:
            try:
                if requested is None or (repeat and loop.time() - requested >= _REPEAT):
                    await request()
                    requested = loop.time()
                if await control.state() is goal:
                    return True
            except BmcUnavailableError:
                if loop.time() >= until:
                    raise
            if loop.time() >= until:
                return False
            await asyncio.sleep(min(_POLL, max(0.0, until - loop.time())))

    async def _note(self, what: str) -> None:
        self._remarks.append(what)
        await self._say(f"{self._machine.node}: {what}")


def _has_ssh(stack: str, node: str) -> bool:
    """Return whether the stack's SSH configuration has the node."""
    file = paths.ssh_config(stack)
    return file.exists() and f"Host {node}" in file.read_text(encoding="utf-8").splitlines()
