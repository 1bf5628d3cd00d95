"""`rackwright verify`: check a running stack without Pulumi and record the verdict."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rackwright.catalog.checks import Level
from rackwright.cli.progress import show_progress
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import require_up

if TYPE_CHECKING:
    from rackwright.drivers.check_runner import RunOutcome


def verify(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    level: Annotated[
        Level, typer.Option(help="Verification level: checks is read-only; smoke runs short jobs on idle nodes.")
    ] = Level.CHECKS,
    node: Annotated[
        list[str] | None, typer.Option(help="Check only this node (repeatable). The cluster verdict is left unchanged.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List every result, not one row per subject.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON (schema rackwright.report/1).")] = False,
) -> None:
    """Check a running stack against its plan and record the verdict.

    Exit codes: 0 as declared, 1 not as declared, 2 invalid input, 3 undetermined.
    """
    require_up(stack)
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
    """Run the checks and return the path of their report."""
    try:
        outcome = asyncio.run(_checked(stack, level, nodes))
    except KeyboardInterrupt:
        raise UndeterminedError("interrupted: checks that did not run are recorded as unknown", path=f"stack {stack}") from None
    said = outcome.said.strip() or "none"
    if outcome.status == InputError.exit_code:
        raise InputError(said)
    if not outcome.report.exists():
        raise UndeterminedError(f"the checks wrote no report; output: {said}", path=f"stack {stack}")
    return outcome.report


async def _checked(stack: str, level: Level, nodes: list[str]) -> RunOutcome:
    """Run the checks while the nodes are powered on and return their outcome."""
    from rackwright.drivers.check_runner import run_checks
    from rackwright.drivers.power import from_inventory, wake_nodes

    inventory = paths.inventory(stack)
    async with wake_nodes(stack, from_inventory(inventory, nodes), show_progress):
        return await run_checks(
            inventory=inventory,
            ssh_config=paths.ssh_config(stack),
            results=paths.results(stack),
            level=level.value,
            nodes=nodes,
            on_progress=show_progress,
        )
