"""Whom a look for drift tells, by what the stack file says as it is now; a stack that is up need not be applied for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import typer

from rackwright.drift import notify
from rackwright.drift.history import History
from rackwright.errors import BadInput
from rackwright.model.drift import DriftPolicy, Notify
from rackwright.model.units import parse_seconds


def policy(stack: str) -> DriftPolicy:
    """What the stack file says of drift."""
    from rackwright.cli.stack import judge

    cluster = judge(stack).loaded.cluster
    return cluster.drift if cluster else DriftPolicy()


def tell(message: notify.Message | None, found: DriftPolicy) -> None:
    """Tell it, where there is something to tell and somebody to be told; what went wrong goes to standard error."""
    if message is None:
        return
    for wrong in notify.send(message, _channels(found.notify)):
        typer.echo(wrong, err=True)


def overdue(stack: str, kept: History, most: str) -> int:
    """Whether the last look is younger than that, as an exit code; where it is not, people are told, once for each such silence."""
    from pydantic_core import PydanticCustomError

    try:
        limit = timedelta(seconds=parse_seconds(most))
    except PydanticCustomError as error:
        raise BadInput(f"`{most}` is no duration", path="--overdue", hint="a number and h or d, like 26h") from error
    last = kept.looks(1)[0].started
    since = datetime.now(UTC) - last
    if since <= limit:
        typer.echo(f"{stack}: the last look was {since.total_seconds() / 3600:.0f} h ago")
        return 0
    message = notify.overdue(stack, since, limit)
    typer.echo(message.body, err=True)
    if not kept.told_already(f"no look since {last.isoformat()}"):
        tell(message, policy(stack))
    return 3


def _channels(found: Notify) -> notify.Channels:
    mail = found.mail
    return notify.Channels(
        mail_to=mail.to if mail else (),
        mail_from=(mail.sender or "") if mail else "",
        mail_server=mail.server if mail else "localhost",
        webhook_file=Path(found.webhook_file) if found.webhook_file else None,
        command=found.command,
    )
