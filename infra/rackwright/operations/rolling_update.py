"""Rolling update of a running stack: drain, apply the playbooks, verify and resume workers, the first one alone, then in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rackwright import layout
from rackwright.drift.host_baseline.boots import expect_reboots
from rackwright.drivers import power, ssh_connections
from rackwright.drivers.rolling_update import RollingUpdate, RollingUpdateResult, Say
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.inventory import is_baked, paths
from rackwright.inventory.reader import Inventory, from_inventory
from rackwright.inventory.running_stack import load_inventory
from rackwright.model.finding import did_you_mean
from rackwright.operations.monitoring import silences
from rackwright.operations.run_records import RunWriter
from rackwright.operations.stack_lock import StackLock

_CONNECT_TIMEOUT: Final = 15.0
"""Seconds for connecting to a node."""


@dataclass(frozen=True, slots=True)
class RollingUpdateSummary:
    """The workers of a rolling update."""

    chosen: tuple[str, ...]
    resumed: tuple[str, ...]
    """Workers that are updated and back in service."""


def update_workers(stack: str, workers: Sequence[str], say: Say, on_progress: Say, *, reboot: bool) -> RollingUpdateSummary:
    """Update these workers in their order, without names all workers; the first one is the canary.

    Raises InputError if the stack is not up, a worker is unknown, or nodes that are containers would reboot; UndeterminedError if a
    worker is unreachable, or at Ctrl-C; RackwrightError if a worker cannot be drained, updated or resumed, which ends the update.
    """
    inventory = load_inventory(stack)
    declared = from_inventory(inventory)  # Refuses an inventory of another version before any node is drained.
    everything = inventory["all"]
    cluster, known = everything["vars"]["cluster"], list(everything["children"]["role_worker"]["hosts"])
    chosen = _choose(workers, known)
    if reboot and not cluster["manage_kernel"]:
        raise InputError(
            "cannot reboot nodes that are containers: they have no kernel of their own",
            path="--reboot",
            hint="remove --reboot; the playbooks are applied without it",
        )
    try:
        done = asyncio.run(_roll(declared, cluster, chosen, say, on_progress, reboot=reboot))
    except KeyboardInterrupt:
        hint = "run the same command again to continue, or `rackwright up` to resume the drained nodes"
        raise UndeterminedError("rolling update interrupted; drained nodes stay drained", path=f"stack {stack}", hint=hint) from None
    if done.reasons:
        raise RackwrightError("\n".join(done.reasons))
    return RollingUpdateSummary(tuple(chosen), tuple(done.nodes))


def _choose(names: Sequence[str], workers: Sequence[str]) -> list[str]:
    """Return the workers to roll, by default all of them; raise InputError for an unknown name."""
    for name in names:
        if name not in workers:
            raise InputError(f"unknown worker `{name}`", path="--nodes", hint=did_you_mean(name, workers))
    if not workers:
        raise InputError(
            "stack has no workers, the only nodes that `rolling-update` updates",
            path="--nodes",
            hint="run `rackwright up` to update the other nodes",
        )
    return list(dict.fromkeys(names)) or list(workers)


async def _roll(
    declared: Inventory, cluster: Mapping[str, Any], nodes: Sequence[str], say: Say, on_progress: Say, *, reboot: bool
) -> RollingUpdateResult:
    """Update the nodes while holding the stack's lock, with the nodes powered on and connected, and their alerts silenced."""
    stack = declared.stack
    await StackLock(stack).hold()
    inventory = paths.inventory(stack)
    async with power.wake_nodes(stack, power.from_inventory(inventory, list(nodes)), on_progress):
        lost = await ssh_connections.connect_all(stack, list(nodes), within=_CONNECT_TIMEOUT)
        if lost:
            causes = "\n".join(f"{name}: {reason}" for name, reason in lost.items())
            hint = "exclude them with --nodes, or repair them first"
            raise UndeterminedError(f"aborted before any change: some nodes are unreachable\n{causes}", hint=hint)
        skipped = ("install",) if is_baked(cluster) else ()
        batch, own = cluster["rolling"]["batch"], paths.site(stack)
        site = str(own) if own.exists() else "site.yml"
        silence = silences.of_batches(declared, cluster["scheduler"]["drain_timeout_s"], say)
        run = RunWriter(stack, "rolling update", nodes)
        rolling = RollingUpdate(layout.product_root(), inventory, paths.secrets(stack), skipped, batch, reboot, site, silence, run.file)
        done = await rolling.run(nodes, say, on_progress)
        done.reasons = run.end(done.reasons)
        if reboot:
            expect_reboots(paths.host_baseline(stack), nodes)
        if run.problem:
            await say(run.problem)
        return done
