"""`rackwright destroy-expired`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from rackwright.operations import expired_stacks

_SCHEMA = "rackwright.destroy-expired/1"


def reap(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the stacks that would be destroyed; change nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help=f"Print the result for each stack as JSON (schema {_SCHEMA}).")] = False,
) -> None:
    """Destroy all stacks whose TTL (`budget.ttl`) has expired, one after the other. Meant for a timer.

    Exit codes: 0 no expired stack remains, 1 a destroy failed, 3 the expiry of a stack is unknown.
    """
    found = []
    for one in expired_stacks.destroy_expired(expired_stacks.run_pulumi, datetime.now(UTC), dry_run=dry_run):
        found.append(one)
        if not as_json:
            typer.echo(str(one))
    if as_json:
        typer.echo(json.dumps({"schema": _SCHEMA, "stacks": [_data(one) for one in found]}, indent=2))
    elif not found:
        typer.echo("the backend has no stack with resources")
    raise typer.Exit(expired_stacks.exit_code([one.outcome for one in found]))


def _data(one: expired_stacks.ExpiryResult) -> dict[str, Any]:
    return {
        "stack": one.stack,
        "outcome": one.outcome.value,
        "expires": one.expires.isoformat() if one.expires else None,
        "reason": one.reason,
    }
