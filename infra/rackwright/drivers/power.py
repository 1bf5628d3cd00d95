"""Nodes in power saving, resumed for as long as a command needs them.

Slurm resumes the nodes, so that its state and the machines' agree. They keep running because the time since which Slurm counts them idle
is refreshed. Nothing has to be undone: when the command has ended, in whatever way, Slurm suspends the nodes as usual.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rackwright.drivers import ssh_connections
from rackwright.errors import RackwrightError
from rackwright.inventory.reader import load_document
from rackwright.remote.command import AS_ROOT

_POLLS: Final = 4.0
"""Seconds for two polls in which Slurm reads the power of its nodes (slurm.conf, power_save_interval)."""
_ANSWER: Final = 10.0
"""Seconds for one scontrol at the controller: slurmctld has MessageTimeout (10 s by default, slurm.conf(5)) to reply."""
_WITHOUT_POWER: Final = frozenset({"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"})
"""States of nodes that may be off: also of one that boots, which Slurm sets down if it is not ready in time."""
_WAKE: Final = r"""
exec 2>&1 9>/run/rackwright-wake
until=$(($(date +%s) + $2)) nodes=$1
flock -w "$2" 9 || { echo "another process has been resuming nodes for $2 s"; exit 1; }
for unit in munge slurmctld; do
    pid=$(systemctl show --value --property=MainPID "$unit" 2>/dev/null) || continue
    case $(sed 's/.*) //' "/proc/${pid:-0}/stat" 2>/dev/null) in [Tt]*) echo "$unit.service is suspended by a signal"; exit 1 ;; esac
done
chosen() {
    scontrol --oneliner show nodes | awk -v nodes=",$nodes," -v is="$1" -v but="$2" '{
        name = substr($1, 10); state = ""
        for (i = NF; i > 1; i--) if ($i ~ /^State=/) state = substr($i, 7)
        if (index(nodes, "," name ",") && state ~ is && state !~ but) print name
    }' | paste -sd,
}
scontrol --oneliner show nodes >/dev/null || exit 1
idle=$(chosen '^IDLE$' none)
[ -z "$idle" ] || scontrol update NodeName="$idle" State=IDLE
while asleep=$(chosen '[+](POWERED_DOWN|POWERING_DOWN|POWERING_UP|POWER_UP)' none); [ -n "$asleep" ]; do
    off=$(chosen '[+]POWERED_DOWN' '[+]POWER_UP')
    [ -z "$off" ] || { scontrol update NodeName="$off" State=POWER_UP && echo "resumed $off"; }
    [ "$(date +%s)" -lt "$until" ] || { echo "still suspended: $asleep"; exit 1; }
    sleep 0.5
done
"""
"""A repeated request would make a node boot again while it powers up. Therefore only one request runs at a time."""


@dataclass(frozen=True)
class PowerSavingNodes:
    """The nodes that Slurm may power down, and the controller that can resume them."""

    controller: str
    nodes: tuple[str, ...]
    idle_s: int
    cycle_s: int
    """Seconds that a power-down and a power-up may take."""

    @classmethod
    def of(cls, scheduler: Mapping[str, Any], only: Collection[str] = ()) -> PowerSavingNodes | None:
        """Return the power saving of a plan's scheduler, or None if none of the given nodes is ever suspended."""
        saving = scheduler.get("power_saving") or {}
        nodes = tuple(name for name in saving.get("nodes", ()) if not only or name in only)
        if not nodes or not scheduler["controllers"]:
            return None
        return cls(scheduler["controllers"][0], nodes, saving["idle_s"], saving["suspend_timeout_s"] + saving["resume_timeout_s"])


def switches_machines(scheduler: Mapping[str, Any]) -> bool:
    """Return whether controllers switch machines through their BMCs, by a plan's scheduler."""
    return bool((scheduler.get("power_saving") or {}).get("bmcs"))


def from_inventory(inventory: Path, only: Collection[str] = ()) -> PowerSavingNodes | None:
    """Return the power saving in the inventory of a stack that is up."""
    if not inventory.is_file():
        return None
    return PowerSavingNodes.of(load_document(inventory)["all"]["vars"]["cluster"]["scheduler"], only)


async def is_suspended(stack: str, power_saving: PowerSavingNodes, node: str) -> bool:
    """Return whether Slurm has powered a node down, or changes its power now; False as well without an answer of the controller."""
    try:
        if await ssh_connections.connect_all(stack, [power_saving.controller], within=_ANSWER):
            return False
        ended = await ssh_connections.run_ssh(stack, power_saving.controller, f"scontrol --oneliner show node {node}", timeout=_ANSWER)
    except RackwrightError:
        return False
    states = next((word for word in ended.stdout.split() if word.startswith("State=")), "")
    return ended.ok and not _WITHOUT_POWER.isdisjoint(states.removeprefix("State=").split("+"))


async def ignore_progress(_text: str) -> None:
    """Report nothing: the caller takes about a second, or others report at the same time."""


@contextlib.asynccontextmanager
async def wake_nodes(
    stack: str,
    power_saving: PowerSavingNodes | None,
    on_progress: Callable[[str], Awaitable[None]] = ignore_progress,
    *,
    within: float = _ANSWER,
) -> AsyncIterator[str]:
    """Keep the nodes running inside the context, as far as Slurm can resume them. Yield the reason why not, or an empty text.

    The controller may take `within` seconds to respond at all.
    """
    if power_saving is None:
        yield ""
        return

    async def wake(patience: float) -> str:
        """Resume all nodes. Return the reason why some may still be suspended, in Slurm's words."""
        command = f"{AS_ROOT} sh -c {shlex.quote(_WAKE)} wake {','.join(power_saving.nodes)} {patience:.0f}"
        try:
            ended = await ssh_connections.run_ssh(stack, power_saving.controller, command, timeout=patience + _ANSWER)
        except RackwrightError as error:
            return str(error)
        lines = ended.stdout.splitlines()
        for name in {name for line in lines if line.startswith("resumed ") for name in line.removeprefix("resumed ").split(",")}:
            await ssh_connections.close(stack, name)  # a connection from before the suspension would hang
        return "" if ended.ok else ([*lines, *ended.stderr.splitlines()] or [f"ssh ended with status {ended.status}"])[-1]

    async def keep() -> None:
        while True:
            await asyncio.sleep(power_saving.idle_s / 3)
            await wake(0)

    await on_progress("resuming suspended nodes")
    lost = await ssh_connections.connect_all(stack, [power_saving.controller], within=within)
    reason = lost.get(power_saving.controller) or await wake(power_saving.cycle_s + _POLLS)
    keeping = asyncio.create_task(keep())
    try:
        yield reason
    finally:
        keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeping
