"""`rackwright roll`: workers drained, changed, looked at and given back, the first alone and then `rolling.batch` at a time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rackwright.cli.connect import load
from rackwright.errors import BadInput, CouldNotTell, RackwrightError
from rackwright.handover import is_baked, paths
from rackwright.model.finding import did_you_mean
from rackwright.report.declared import from_inventory

if TYPE_CHECKING:
    from rackwright.provider.drivers.rolling import Rolled


def roll(
    stack: Annotated[str, typer.Argument(help="The stack's name.")],
    nodes: Annotated[str, typer.Option(help="Only these workers, separated by commas, in this order; the first is the canary.")] = "",
    reboot: Annotated[bool, typer.Option("--reboot", help="Reboot each of them.")] = False,
) -> None:
    """Apply the phases to workers without jobs, some at a time. Exit codes: 0 all are back, 1 stopped, 2 bad input, 3 could not tell."""
    found = load(stack)
    from_inventory(found)  # One of another version is refused before any node is drained.
    everything = found["all"]
    cluster, workers = everything["vars"]["cluster"], list(everything["children"]["role_worker"]["hosts"])
    chosen = _chosen(nodes, workers)
    if reboot and not cluster["owns_kernel"]:
        raise BadInput(
            "its nodes are containers, which have no kernel to boot",
            path="--reboot",
            hint="leave it out: the phases are applied all the same",
        )
    try:
        done = asyncio.run(_rolled(stack, cluster, chosen, reboot))
    except KeyboardInterrupt:
        hint = "what it had drained stays so: the same again goes on with it, and `rackwright up` brings it back"
        raise CouldNotTell("interrupted in the middle of the roll", path=f"stack {stack}", hint=hint) from None
    if done.reasons:
        raise RackwrightError("\n".join(done.reasons))
    typer.echo(f"rolled {len(done.nodes)} of {len(chosen)}: {', '.join(done.nodes)}")


def _chosen(asked: str, workers: Sequence[str]) -> list[str]:
    """The workers to roll, all where none is named."""
    chosen = [name.strip() for name in asked.split(",") if name.strip()]
    for name in chosen:
        if name not in workers:
            raise BadInput(f"there is no worker `{name}`", path="--nodes", hint=did_you_mean(name, workers))
    if not workers:
        raise BadInput("the stack has no workers", path="--nodes", hint="only nodes that run jobs are rolled")
    return list(dict.fromkeys(chosen)) or list(workers)


async def _rolled(stack: str, cluster: Mapping[str, Any], nodes: Sequence[str], reboot: bool) -> Rolled:
    """The roll, with the stack held and its nodes awake and reached."""
    from rackwright.provider.drivers import ssh
    from rackwright.provider.drivers.awake import awake, handed_over
    from rackwright.provider.drivers.rolling import Roll
    from rackwright.provider.stack_lock import StackLock

    await StackLock(stack).hold()
    inventory = paths.inventory(stack)
    async with awake(stack, handed_over(inventory, list(nodes)), _progress):
        lost = await ssh.reach(stack, list(nodes), within=_REACH)
        if lost:
            told = "\n".join(f"{name}: {reason}" for name, reason in lost.items())
            raise CouldNotTell(f"nothing was touched, not every node answers\n{told}", hint="leave it out with --nodes, or repair it first")
        skipped = ("install",) if is_baked(cluster) else ()
        batch, own = cluster["rolling"]["batch"], paths.site(stack)
        site = str(own) if own.exists() else "site.yml"
        rolling = Roll(paths.project_root(), inventory, paths.secrets(stack), skipped, batch, reboot, site)
        return await rolling.run(nodes, _say, _progress)


_REACH = 15.0
"""Seconds for a node that is up to answer."""


async def _say(text: str) -> None:
    typer.echo(text, err=True)


async def _progress(text: str) -> None:
    """On a terminal, one line that is overwritten; nowhere else."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}\r", end="", file=sys.stderr, flush=True)
