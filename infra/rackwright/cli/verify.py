"""`rackwright verify`: look at a live cluster now, without Pulumi, and put the verdict on record."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rackwright.catalog.checks import Level
from rackwright.cli.live import must_be_up
from rackwright.errors import BadInput, CouldNotTell
from rackwright.handover import paths

if TYPE_CHECKING:
    from rackwright.provider.drivers.pytest_run import RunOutcome


def verify(
    stack: Annotated[str, typer.Argument(help="The stack's name.")],
    level: Annotated[Level, typer.Option(help="How far to prove: checks only look; smoke runs short jobs on idle nodes.")] = Level.CHECKS,
    node: Annotated[list[str] | None, typer.Option(help="Only this node (may be given again): no verdict on the cluster.")] = None,
    every: Annotated[bool, typer.Option("--every", help="List every result, not one row per subject.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON (rackwright.report/1).")] = False,
) -> None:
    """Check a live cluster against its plan. Exit codes: 0 as declared, 1 not, 2 bad input, 3 could not tell."""
    must_be_up(stack)
    file = _run(stack, level, node or [])
    if as_json:
        typer.echo(file.read_text(encoding="utf-8"), nl=False)
    from rackwright.report.store import read

    report = read(file)
    if not as_json:
        from rich.console import Console

        from rackwright.report.terminal import show

        show(report, Console(), every=every)
    raise typer.Exit(report.verdict.exit_code)


def _run(stack: str, level: Level, nodes: list[str]) -> Path:
    """Run the checks; where their report is."""
    try:
        outcome = asyncio.run(_checked(stack, level, nodes))
    except KeyboardInterrupt:
        raise CouldNotTell("interrupted: what was not looked at is on record as unknown", path=f"stack {stack}") from None
    said = outcome.said.strip() or "nothing"
    if outcome.status == BadInput.exit_code:
        raise BadInput(said)
    if not outcome.report.exists():
        raise CouldNotTell(f"the checks left no report; they said: {said}", path=f"stack {stack}")
    return outcome.report


async def _checked(stack: str, level: Level, nodes: list[str]) -> RunOutcome:
    """How the checks ended; the nodes that they are about are awake."""
    from rackwright.provider.drivers.awake import awake, handed_over
    from rackwright.provider.drivers.pytest_run import run_checks

    inventory = paths.inventory(stack)
    async with awake(stack, handed_over(inventory, nodes), _progress):
        return await run_checks(
            inventory=inventory,
            ssh_config=paths.ssh_config(stack),
            results=paths.results(stack),
            level=level.value,
            nodes=nodes,
            on_progress=_progress,
        )


async def _progress(text: str) -> None:
    """On a terminal, one line that is overwritten; nowhere else."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}\r", end="", file=sys.stderr, flush=True)
