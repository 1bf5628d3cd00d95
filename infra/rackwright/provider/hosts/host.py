"""A machine that exists already: adopted when it is what the stack says and lets us in, looked at by a refresh, never made or deleted."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar, Final

from rackwright.drivers import host_facts, ssh
from rackwright.drivers.ssh_client import HostUnreachableError, LoginRefusedError, Session, SshRoute, login
from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.provider.protocol.property_values import UNKNOWN, Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource

_USABLE: Final = "usable"
_CLEAN: Final = "clean"


class Host(Resource):
    """Inputs: see `required`; `out` for one that takes no part, at which nobody looks; `identity`, the private key of the first login;
    `serial`, which its firmware must say where it says one; `via` {name, address, port, user, host_key} where it is reached through another
    machine.

    Outputs: the inputs, the key it shows (`public_key`), its machine id (`incarnation`), and `status`: `usable`, or why it is not.
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
    ignore_changes: ClassVar[frozenset[str]] = frozenset({"identity"})

    def apply_defaults(self, news: Properties) -> Properties:
        """A declared host can be used."""
        return {**news, "status": _USABLE}

    def preview_outputs(self, news: Properties) -> Properties:
        """What only the machine can tell."""
        return {**news, "public_key": UNKNOWN, "incarnation": UNKNOWN}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Adopt it: look, refuse what cannot work, and give the stack's own key a way in. What runs there is not touched."""
        if news["out"]:
            return LiveResource(news["name"], {**news, "public_key": "", "incarnation": ""})
        await operation.status("looking at the machine")
        return await asyncio.to_thread(_adopt, operation.stack, news)

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """What it is now. A machine that does not answer is still ours: it is shown as a difference, not as gone."""
        if state.inputs["out"]:
            return LiveResource(state.id, state.outputs)
        try:
            seen = await asyncio.to_thread(_look, operation.stack, state.inputs, adopted=True)
        except RackwrightError as error:
            return LiveResource(state.id, {**state.outputs, "status": error.cause}, inputs={**state.inputs, "status": error.cause})
        return LiveResource(state.id, {**state.outputs, **seen, "status": _USABLE}, inputs={**state.inputs, "status": _USABLE})

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Adopt it as it is declared now; one that is out now keeps what is known of it, and nobody looks."""
        await ssh.close(operation.stack, news["name"])
        if news["out"]:
            return LiveResource(state.id, {**news, **{name: state.outputs.get(name, "") for name in ("public_key", "incarnation")}})
        return await self.create(operation, news)

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Let go of it: remove the stack's key, and with `leave: clean` the configuration. One that does not answer is let go as it is."""
        await ssh.close(operation.stack, state.inputs["name"])
        try:
            await asyncio.to_thread(_let_go, operation.stack, state.inputs)
        except (HostUnreachableError, LoginRefusedError) as error:
            await operation.warn(f"{error.cause}; it keeps what was configured, and the stack's key")


def _adopt(stack: str, news: Properties) -> LiveResource:
    seen = _look(stack, news, adopted=False)
    return LiveResource(news["name"], {**news, **seen})


def _look(stack: str, inputs: Properties, *, adopted: bool) -> Properties:
    """What the machine shows; raises with all that is wrong with it."""
    with _session(stack, inputs) as session:
        host_facts.require_root(session)
        found = host_facts.facts(session)
        declared = host_facts.Declared(
            os=inputs["os"],
            cpus=int(inputs["cpus"]),
            memory_mib=int(inputs["memory_mib"]),
            gpus=int(inputs["gpus"]),
            container=inputs["container"],
            serial=inputs.get("serial"),
        )
        if wrong := host_facts.mismatches(found, declared, adopted=adopted):
            raise LoginRefusedError(f"{session.way}: " + "; ".join(wrong), hint="declare what is there, or change the machine")
        if not adopted:
            host_facts.authorize_key(session, inputs["authorized_key"])
        return {"public_key": session.public_key, "incarnation": found.machine_id}


def _let_go(stack: str, inputs: Properties) -> None:
    with _session(stack, inputs) as session:
        if inputs["leave"] == _CLEAN:
            host_facts.clean(session)
        host_facts.revoke_key(session, inputs["authorized_key"])


def _session(stack: str, inputs: Properties) -> AbstractContextManager[Session]:
    identity = inputs.get("identity")
    own = paths.identity(stack)
    keys = [*([own] if own.exists() else []), *([Path(identity)] if identity else [])]
    return login(_way(inputs), keys, through=_way(inputs["via"]) if inputs.get("via") else None)


def _way(inputs: Properties) -> SshRoute:
    return SshRoute(inputs["name"], inputs["address"], int(inputs["port"]), inputs["user"], inputs["host_key"])
