"""`rackwright rolling-update`: drain, update, verify and resume workers, the first one alone, then `rolling.max_unavailable` at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rackwright import layout
from rackwright.cli.progress import show_progress
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.inventory import is_baked, paths
from rackwright.inventory.reader import from_inventory
from rackwright.inventory.running_stack import load_inventory
from rackwright.model.finding import did_you_mean

if TYPE_CHECKING:
    from rackwright.drivers.rolling_update import RollingUpdateResult


def roll(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    nodes: Annotated[str, typer.Option(help="Roll only these workers (comma-separated), in this order; the first is the canary.")] = "",
    reboot: Annotated[bool, typer.Option("--reboot", help="Reboot each worker.")] = False,
) -> None:
    """Update workers in batches: drain, apply the playbooks, verify, resume.

    Exit codes: 0 all workers resumed, 1 stopped, 2 invalid input, 3 undetermined.
    """
    found = load_inventory(stack)
    from_inventory(found)  # Refuses an inventory of another version before any node is drained.
    everything = found["all"]
    cluster, workers = everything["vars"]["cluster"], list(everything["children"]["role_worker"]["hosts"])
    chosen = _chosen(nodes, workers)
    if reboot and not cluster["manage_kernel"]:
        raise InputError(
            "cannot reboot nodes that are containers: they have no kernel of their own",
            path="--reboot",
            hint="remove --reboot; the playbooks are applied without it",
        )
    try:
        done = asyncio.run(_rolled(stack, cluster, chosen, reboot))
    except KeyboardInterrupt:
        hint = "run the same command again to continue, or `rackwright up` to resume the drained nodes"
        raise UndeterminedError("roll interrupted; nodes that it drained stay drained", path=f"stack {stack}", hint=hint) from None
    if done.reasons:
        raise RackwrightError("\n".join(done.reasons))
    typer.echo(f"rolled {len(done.nodes)} of {len(chosen)}: {', '.join(done.nodes)}")


def _chosen(asked: str, workers: Sequence[str]) -> list[str]:
    """Return the workers to roll, by default all of them; raise InputError for an unknown name."""
    chosen = [name.strip() for name in asked.split(",") if name.strip()]
    for name in chosen:
        if name not in workers:
            raise InputError(f"unknown worker `{name}`", path="--nodes", hint=did_you_mean(name, workers))
    if not workers:
        raise InputError(
            "stack has no workers, the only nodes that `rolling-update` updates",
            path="--nodes",
            hint="run `rackwright up` to update the other nodes",
        )
    return list(dict.fromkeys(chosen)) or list(workers)


async def _rolled(stack: str, cluster: Mapping[str, Any], nodes: Sequence[str], reboot: bool) -> RollingUpdateResult:
    """Roll the nodes while holding the stack's lock, with the nodes powered on and connected."""
    from rackwright.drivers import ssh
    from rackwright.drivers.power import from_inventory as power_from_inventory
    from rackwright.drivers.power import wake_nodes
    from rackwright.drivers.rolling_update import RollingUpdate
    from rackwright.operations.stack_lock import StackLock

    await StackLock(stack).hold()
    inventory = paths.inventory(stack)
    async with wake_nodes(stack, power_from_inventory(inventory, list(nodes)), show_progress):
        lost = await ssh.connect_all(stack, list(nodes), within=_REACH)
        if lost:
            told = "\n".join(f"{name}: {reason}" for name, reason in lost.items())
            raise UndeterminedError(
                f"aborted before any change: some nodes are unreachable\n{told}", hint="exclude them with --nodes, or repair them first"
            )
        skipped = ("install",) if is_baked(cluster) else ()
        batch, own = cluster["rolling"]["batch"], paths.site(stack)
        site = str(own) if own.exists() else "site.yml"
        rolling = RollingUpdate(layout.product_root(), inventory, paths.secrets(stack), skipped, batch, reboot, site)
        return await rolling.run(nodes, _say, show_progress)


_REACH = 15.0
"""Timeout in seconds for connecting to a node."""


async def _say(text: str) -> None:
    typer.echo(text, err=True)
