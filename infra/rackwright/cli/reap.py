"""`rackwright reap`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from rackwright.cli import reaping

_SCHEMA = "rackwright.reap/1"


def reap(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help=f"What became of each stack ({_SCHEMA}).")] = False,
) -> None:
    """End every stack whose time (`budget.ttl`) is over: `pulumi destroy`, one after the other. For a timer.

    Exit codes: 0 nothing is left that should have ended, 1 a destroy failed, 3 for some stack nobody can tell.
    """
    found = []
    for one in reaping.reap(reaping.pulumi, datetime.now(UTC), dry_run=dry_run):
        found.append(one)
        if not as_json:
            typer.echo(str(one))
    if as_json:
        typer.echo(json.dumps({"schema": _SCHEMA, "stacks": [_data(one) for one in found]}, indent=2))
    elif not found:
        typer.echo("the backend knows no stack with resources")
    raise typer.Exit(reaping.exit_code([one.fate for one in found]))


def _data(one: reaping.Reaped) -> dict[str, Any]:
    return {
        "stack": one.stack,
        "fate": one.fate.value,
        "expires": one.expires.isoformat() if one.expires else None,
        "reason": one.reason,
    }
