"""Silences of alerts about nodes that a command takes out of service, and about nodes that are declared out.

Each has an end, so that those of a run that was killed expire by themselves.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final

from rackwright.drivers import remote_exec, ssh_connections
from rackwright.errors import RackwrightError
from rackwright.inventory.reader import Inventory

_REACH: Final = 10.0
"""Seconds for connecting to the node."""
_CHANGE: Final = 30.0
"""Seconds for reading and changing a few silences; Alertmanager answers each request within 5 s."""
_RENEWED: Final = timedelta(days=7)
"""Length of the silence of a node that is out without a date; each verification and drift scan renews it. Chosen."""
_SETTLING: Final = 10
"""Seconds beside two scrape intervals until Prometheus has read a node again and Alertmanager knows that its alerts have ended."""
_UPDATE: Final = 3600.0
"""Seconds beside the time limit of the drain after which the silence of a batch ends by itself, if its run was killed. Chosen."""
ROLLING: Final = "rolling-update"
REMOVAL: Final = "removal"
OUT: Final = "out"
Say = Callable[[str], Awaitable[None]]


def of_batches(declared: Inventory, drain_s: float, say: Say) -> Callable[[Sequence[str]], AbstractAsyncContextManager[None]]:
    """Return the context of each batch of a rolling update."""
    return lambda nodes: silenced(declared, nodes, "rolling update", drain_s + _UPDATE, say)


def of_removal(declared: Inventory, nodes: Sequence[str], drain_s: float, say: Say) -> AbstractAsyncContextManager[None]:
    """Return the context in which nodes are removed: their daemons stop before Prometheus no longer reads them."""
    return silenced(declared, nodes, "removal", drain_s + _UPDATE, say, owner=REMOVAL)


@asynccontextmanager
async def silenced(
    declared: Inventory, nodes: Sequence[str], reason: str, seconds: float, say: Say, *, owner: str = ROLLING
) -> AsyncIterator[None]:
    """Silence the alerts about nodes inside the context, for as many seconds at most; `say` receives why that failed.

    Nothing happens where the stack has no Alertmanager of its own.
    """
    comment = f"rackwright: {reason} ({', '.join(nodes)})"
    for failure in await set_silences(declared, owner, [{"nodes": list(nodes), "comment": comment, "seconds": seconds}]):
        await say(failure)
    try:
        yield
    finally:
        for failure in await set_silences(declared, owner, []):
            await say(failure)


async def silence_out_nodes(declared: Inventory, now: datetime | None = None) -> list[str]:
    """Silence the alerts about nodes that are out, and end the silences of nodes that are back; return why that failed."""
    return await set_silences(declared, OUT, list(out_silences(declared, now or datetime.now(UTC))))


def out_silences(declared: Inventory, now: datetime) -> Iterator[dict[str, Any]]:
    """Yield the silence of each node that is out: until the end of its last day. A node that is overdue is not silenced any more."""
    for name, record in declared.out.items():
        until = record.get("until")
        end = datetime.combine(datetime.fromisoformat(str(until)).date(), time.max, UTC) if until else now + _RENEWED
        if end > now:
            comment = f"rackwright: {name} is out: {record.get('reason') or 'no reason given'}"
            yield {"nodes": [name], "comment": comment, "seconds": (end - now).total_seconds()}


async def set_silences(declared: Inventory, owner: str, wanted: Sequence[Mapping[str, Any]]) -> list[str]:
    """Let the silences of an owner be the wanted ones; return why that failed."""
    server = declared.monitoring.get("server") if declared.monitoring else None
    if declared.monitoring is None or server is None:
        return []
    ports = {one["job"]: one["port"] for one in declared.monitoring["targets"]}
    linger = 2 * declared.monitoring["interval_s"] + _SETTLING
    request = {"host": server, "port": ports["alertmanager"], "owner": owner, "wanted": list(wanted), "linger_s": linger}
    try:
        lost = await ssh_connections.connect_all(declared.stack, [server], within=_REACH)
        if not lost:
            sudo = {server: declared.needs_sudo(server)}
            _, lost = await remote_exec.run_on_nodes(
                declared.stack, "alert_silences", {server: request}, sudo, target=declared.target, limit=_CHANGE
            )
    except (RackwrightError, OSError) as error:
        lost = {server: str(error)}
    return [f"{name}: cannot change silences of alerts: {why}" for name, why in lost.items()]
