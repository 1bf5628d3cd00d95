"""Injecting one failure and undoing it: on a node through its systemd, from this machine under a lease."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rackwright.drivers import node_kill, node_pause, remote_exec, ssh_connections
from rackwright.errors import RackwrightError
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.chaos import lease as leases
from rackwright.operations.chaos import watchdog
from rackwright.operations.chaos.lease import Lease, Undo
from rackwright.operations.chaos.modes import SPECS, Hold, Mode
from rackwright.operations.chaos.schedule import ScheduledEvent
from rackwright.report.chaos import EventRecord

_ANSWER: Final = 60.0
"""Seconds for an answer of a node: a command has 40 (remote/programs/chaos_node.py), and Python has to start. Longer on a slow machine."""
GRACE: Final = 30.0
"""Seconds after the end of a failure at which others may end its lease: the command needs that long to start a node on a busy machine."""
BY_ITSELF, BY_UNIT, BY_COMMAND = "itself", "unit", "command"


@dataclass(frozen=True)
class Injector:
    """Access to the nodes of one stack."""

    running: RunningStack
    user: str
    submit_host: str
    """Node whose journal has all events: that of a killed node may be lost."""
    bandwidth: str
    slowness: int
    hold_s: int | None = None
    """Seconds that a failure with a duration lasts; None: as its mode says."""

    async def ask(self, node: str, action: str, **more: Any) -> dict[str, Any]:
        """Return a node's answer. Raises RackwrightError if there is none, or if the node refuses."""
        sudo = {node: self.running.inventory.needs_sudo(node)}
        found, lost = await remote_exec.run_on_nodes(
            self.running.name,
            "chaos_node",
            {node: {"action": action, **more}},
            sudo,
            target=self.running.inventory.target,
            limit=_ANSWER * self.slowness,
        )
        if node in lost:
            await ssh_connections.close(self.running.name, node)
            raise RackwrightError(lost[node], path=node)
        if found[node]["error"]:
            raise RackwrightError(found[node]["error"], path=node)
        return dict(found[node])

    async def log(self, nodes: Iterable[str], text: str) -> None:
        """Write a line to the journals of nodes; a node that does not answer has none."""
        await asyncio.gather(*(self.ask(node, "log", text=text) for node in dict.fromkeys(nodes)), return_exceptions=True)

    def params(self, event: ScheduledEvent) -> dict[str, Any]:
        """Return what a failure is made of, for its record."""
        spec = SPECS[event.mode]
        found: dict[str, Any] = {} if spec.hold is Hold.MOMENT else {"seconds": spec.seconds if self.hold_s is None else self.hold_s}
        if event.mode is Mode.NETWORK_SLOW:
            found["bandwidth"] = self.bandwidth
        if event.mode in (Mode.GPU_LOST, Mode.XID):
            found["slot"] = event.pick % int(self.running.inventory.nodes[event.target]["gpus"]["count"])
        return found

    async def inject(self, event: ScheduledEvent, record: EventRecord) -> Lease | None:
        """Inject a failure; fill in when it began, and return its lease. Raises RackwrightError if it cannot be injected."""
        record.begun = time.time()
        if SPECS[event.mode].hold is Hold.LEASE:
            return await self._inject_from_here(event, record)
        address = self.running.inventory.nodes[event.target]["address"]
        request = {"id": record.id, "mode": event.mode.value, "address": address, "user": self.user, "pick": event.pick}
        fixed: Mapping[str, Any] = {"seconds": 0, "bandwidth": self.bandwidth, "slot": 0}
        answer = await self.ask(event.target, "inject", **request, **{**fixed, **record.params})
        record.received, record.injected = answer["target"], answer["begun"]
        if SPECS[event.mode].hold is Hold.MOMENT:
            record.undone, record.undone_by = answer["injected"], BY_ITSELF
        return None

    async def _inject_from_here(self, event: ScheduledEvent, record: EventRecord) -> Lease:
        name, declared = self.running.name, self.running.inventory
        undo = Undo.START if event.mode is Mode.NODE_KILL else Undo.RESUME
        await self.log([event.target, self.submit_host], f"{record.id} {event.mode.value}: injected on {event.target} from outside")
        deadline = time.time() + record.params["seconds"] + GRACE * self.slowness
        lease = await asyncio.to_thread(leases.grant, name, declared.target, event.target, undo, record.id, deadline)
        watchdog.start(lease)
        record.injected = time.time()
        if undo is Undo.START:
            await node_kill.kill(name, declared.target, event.target)
        else:
            await node_pause.pause(name, event.target)
        return lease

    async def end(self, lease: Lease, record: EventRecord) -> None:
        """End a lease after the failure's time; fill in who did. Raises RackwrightError if the node does not start."""
        assert record.injected is not None
        await asyncio.sleep(max(0.0, record.injected + record.params["seconds"] - time.time()))
        await leases.end(lease, BY_COMMAND)
        fill_in_end(lease, record)

    async def is_held(self, node: str, id_: str) -> bool:
        """Return whether a failure's unit is still there. Raises RackwrightError if the node does not answer."""
        return id_ in (await self.ask(node, "units"))["units"]


def fill_in_end(lease: Lease, record: EventRecord) -> None:
    """Fill in when and by whom a lease was ended."""
    if found := leases.ended(lease.stack, lease.id):
        record.undone, record.undone_by = float(found["at"]), str(found["by"])
