"""An existing machine: adopted when it matches the stack and accepts the login, inspected by a refresh, never created or deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Final

from rackwright.drivers import host_facts, ssh_connections
from rackwright.drivers.power import PowerSavingNodes, from_inventory, is_suspended, wake_nodes
from rackwright.drivers.ssh_login import ConnectBudget, HostUnreachableError, LoginRefusedError, Session, SshRoute, login
from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.provider.protocol.property_values import UNKNOWN, Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource

_USABLE: Final = "usable"
_CLEAN: Final = "clean"
_CONNECT: Final = 60.0
"""Seconds of `connect_timeout_s` for records of versions without it."""
_SHARE: Final = 3
"""Ratio of the time for a machine that is adopted to that for one that is read or released. Chosen: a refresh has many machines, and one
that is off is reported in either case."""


class Host(Resource):
    """Inputs: see `required`, and the optional ones below.

    `out` is true for a machine that takes no part and is not contacted, `identity` is the private key of the first login, `serial` is
    compared with the firmware's where the firmware has one, `via` {name, address, port, user, host_key} is the jump host,
    `connect_timeout_s` is the time for login attempts that time out, `sshd_port` the port on which sshd listens, `admitted` are the
    networks from which the machine's packet filter will admit SSH.

    Outputs: the inputs, the host key (`public_key`), the machine id (`instance_uid`), and `status`: `usable`, or the reason why not.
    """

    token: ClassVar[str] = "rackwright:hosts:Host"
    required: ClassVar[tuple[str, ...]] = (
        "stack",
        "name",
        "address",
        "port",
        "user",
        "host_key",
        "os",
        "cpus",
        "memory_mib",
        "gpus",
        "container",
        "out",
        "leave",
    )
    replace_on_changes: ClassVar[frozenset[str]] = frozenset({"stack", "name"})
    ignore_changes: ClassVar[frozenset[str]] = frozenset({"identity", "connect_timeout_s", "admitted"})

    def apply_defaults(self, news: Properties) -> Properties:
        """Add the wanted status: a declared host is usable."""
        return {**news, "status": _USABLE}

    def preview_outputs(self, news: Properties) -> Properties:
        """Return the inputs, with the values that only the machine has as unknown."""
        return {**news, "public_key": UNKNOWN, "instance_uid": UNKNOWN}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Adopt the machine: inspect it, refuse what cannot work, and authorise the stack's own key. Leave running services alone."""
        if news["out"]:
            return LiveResource(news["name"], {**news, "public_key": "", "instance_uid": ""})
        await operation.status("inspecting the machine")
        return await asyncio.to_thread(_adopt, operation.stack, news, _reporter(operation))

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """Return the machine's current state. A machine that does not respond remains in the stack: its status differs.

        One that Slurm has powered down is as recorded: nothing is wrong with it, and a refresh does not power it on.
        """
        if state.inputs["out"]:
            return LiveResource(state.id, state.outputs)
        as_recorded = LiveResource(state.id, {**state.outputs, "status": _USABLE}, inputs={**state.inputs, "status": _USABLE})
        if await _is_suspended(operation.stack, state.inputs["name"]):
            return as_recorded
        try:
            seen = await asyncio.to_thread(_look, operation.stack, state.inputs, adopted=True)
        except RackwrightError as error:
            if await _is_suspended(operation.stack, state.inputs["name"]):  # Since the first query.
                return as_recorded
            return LiveResource(state.id, {**state.outputs, "status": error.cause}, inputs={**state.inputs, "status": error.cause})
        return LiveResource(state.id, {**state.outputs, **seen, "status": _USABLE}, inputs={**state.inputs, "status": _USABLE})

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Adopt the machine as declared now; a machine that is out now keeps the recorded outputs and is not contacted."""
        await ssh_connections.close(operation.stack, news["name"])
        if news["out"]:
            return LiveResource(state.id, {**news, **{name: state.outputs.get(name, "") for name in ("public_key", "instance_uid")}})
        async with wake_nodes(operation.stack, _power_saving(operation.stack, news["name"]), operation.status):
            return await self.create(operation, news)

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Remove the stack's key, and with `leave: clean` the configuration. Leave a machine that does not respond as it is."""
        await ssh_connections.close(operation.stack, state.inputs["name"])
        try:
            await asyncio.to_thread(_let_go, operation.stack, state.inputs)
        except (HostUnreachableError, LoginRefusedError) as error:
            await operation.warn(f"{error.cause}; its configuration and the stack's key remain")


async def _is_suspended(stack: str, node: str) -> bool:
    saving = _power_saving(stack, node)
    return saving is not None and await is_suspended(stack, saving, node)


def _power_saving(stack: str, node: str) -> PowerSavingNodes | None:
    """Return the power saving of a machine that Slurm may have powered down; None for others, and without a readable inventory."""
    file = paths.inventory(stack)
    try:
        found = _read_power_saving(file, file.stat().st_mtime_ns)
    except (OSError, RackwrightError):
        return None
    return replace(found, nodes=(node,)) if found is not None and node in found.nodes else None


@lru_cache(maxsize=1)
def _read_power_saving(inventory: Path, _mtime_ns: int) -> PowerSavingNodes | None:
    """Read the inventory once for all machines of a refresh."""
    return from_inventory(inventory)


def _reporter(operation: RequestContext) -> Callable[[str], object]:
    """Return a function that shows progress from another thread."""
    loop = asyncio.get_running_loop()

    async def show(text: str) -> None:
        await operation.status(text)

    return lambda text: asyncio.run_coroutine_threadsafe(show(text), loop)


def _adopt(stack: str, news: Properties, say: Callable[[str], object]) -> LiveResource:
    budget = ConnectBudget(float(news.get("connect_timeout_s") or _CONNECT), say)
    seen = _look(stack, news, adopted=False, budget=budget)
    return LiveResource(news["name"], {**news, **seen})


def _look(stack: str, inputs: Properties, *, adopted: bool, budget: ConnectBudget | None = None) -> Properties:
    """Return what the machine reports; raise one error with every mismatch."""
    with _session(stack, inputs, budget) as session:
        host_facts.require_root(session)
        found = host_facts.facts(session)
        declared = host_facts.Declared(
            os=inputs["os"],
            cpus=int(inputs["cpus"]),
            memory_mib=int(inputs["memory_mib"]),
            gpus=int(inputs["gpus"]),
            container=inputs["container"],
            serial=inputs.get("serial"),
            sshd_port=int(inputs["sshd_port"]) if inputs.get("sshd_port") else None,
            admitted=tuple(inputs.get("admitted") or ()),
        )
        if wrong := host_facts.mismatches(found, declared, adopted=adopted):
            raise LoginRefusedError(f"{session.route}: " + "; ".join(wrong), hint="declare the actual values, or change the machine")
        if not adopted:
            host_facts.authorize_key(session, inputs["authorized_key"])
        return {"public_key": session.public_key, "instance_uid": found.machine_id}


def _let_go(stack: str, inputs: Properties) -> None:
    with _session(stack, inputs) as session:
        if inputs["leave"] == _CLEAN:
            host_facts.clean(session)
        host_facts.revoke_key(session, inputs["authorized_key"])


def _session(stack: str, inputs: Properties, budget: ConnectBudget | None = None) -> AbstractContextManager[Session]:
    identity = inputs.get("identity")
    own = paths.ssh_private_key_file(stack)
    keys = [*([own] if own.exists() else []), *([Path(identity)] if identity else [])]
    budget = budget or ConnectBudget(float(inputs.get("connect_timeout_s") or _CONNECT) / _SHARE)
    return login(_way(inputs), keys, through=_way(inputs["via"]) if inputs.get("via") else None, budget=budget)


def _way(inputs: Properties) -> SshRoute:
    return SshRoute(inputs["name"], inputs["address"], int(inputs["port"]), inputs["user"], inputs["host_key"])
