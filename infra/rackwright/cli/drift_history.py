"""`rackwright drift-history`: differences between a running stack and its declaration, over time."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rackwright.cli.progress import show_message
from rackwright.errors import UndeterminedError


def history(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of scans to list.")] = 30,
    max_age: Annotated[str, typer.Option(help="Exit 3 and notify if no scan finished within this time (for example 26h).")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (schema rackwright.history/3).")] = False,
) -> None:
    """Show the history of drift: for each difference when it was first seen, whether it is still open, and when it was resolved."""
    from rackwright.drift import history_view
    from rackwright.operations.drift.history import check_age, read_history

    if max_age:
        age = check_age(stack, max_age, show_message)
        if age.overdue:
            raise typer.Exit(UndeterminedError.exit_code)
        hours = f"{age.age.total_seconds() / 3600:.0f} h ago"
        typer.echo(f"{stack}: {'last scan' if age.scanned else 'no scan since the stack was created'} {hours}")
        return
    found = read_history(stack, limit)
    if as_json:
        typer.echo(json.dumps(history_view.as_dict(stack, found.scans, found.differences), indent=1, ensure_ascii=False))
        return
    from rich.console import Console

    Console().print(history_view.render(found.scans, found.differences))
