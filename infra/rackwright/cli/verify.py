"""`rackwright verify`: check a running stack without Pulumi and record the verdict."""

from __future__ import annotations

from typing import Annotated

import typer

from rackwright.catalog.checks import Level
from rackwright.cli.progress import show_message, show_progress


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
    from rackwright.operations import verification

    found = verification.verify(stack, level, node or [], show_progress, show_message)
    if as_json:
        typer.echo(found.text, nl=False)
    else:
        from rich.console import Console

        from rackwright.report.terminal import show

        show(found.report, Console(), every=every)
    raise typer.Exit(found.report.verdict.exit_code)
