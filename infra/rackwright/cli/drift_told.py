"""Whom a look for drift tells, by what the stack file says as it is now; a stack that is up need not be applied for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import typer

from rackwright.drift import notify
from rackwright.drift.document import Drift
from rackwright.drift.history import History
from rackwright.errors import BadInput
from rackwright.handover import paths
from rackwright.model.drift import DriftPolicy, Notify
from rackwright.model.units import parse_seconds


def policy(stack: str) -> DriftPolicy:
    """What the stack file says of drift; BadInput with what is wrong in one that cannot be read: it may allow something, or name people."""
    from rackwright.cli.stack import judge

    judged = judge(stack)
    if judged.loaded.cluster is None:
        raise BadInput("\n".join(str(finding) for finding in judged.findings))
    return judged.loaded.cluster.drift


def tell(message: notify.Message | None, found: DriftPolicy) -> None:
    """Tell it, where there is something to tell and somebody to be told; what went wrong goes to standard error."""
    if message is None:
        return
    for wrong in notify.send(message, _channels(found.notify)):
        typer.echo(wrong, err=True)


def measure(found: Drift, policy: DriftPolicy) -> None:
    """For Prometheus, where the stack file names a folder for it; that it could not be written goes to standard error."""
    if policy.metrics_folder is None:
        return
    from rackwright.drift import metrics

    file = Path(policy.metrics_folder) / f"rackwright-{found.stack}.prom"
    try:
        metrics.write(found, file)
    except OSError as error:
        typer.echo(f"{file} could not be written: {error.strerror or error} (`drift.metrics_folder` in the stack file)", err=True)


def overdue(stack: str, kept: History, most: str) -> int:
    """Whether the last look is younger than that, as an exit code; where it is not, people are told, once for each such silence.

    Before the first look it counts from when the stack came up, so that a timer that never ran is told, too.
    """
    from pydantic_core import PydanticCustomError

    try:
        limit = timedelta(seconds=parse_seconds(most))
    except PydanticCustomError as error:
        raise BadInput(f"`{most}` is no duration", path="--overdue", hint="a number and h or d, like 26h") from error
    looks = kept.looks(1)
    last = looks[0].started if looks else datetime.fromtimestamp(paths.inventory(stack).stat().st_mtime, UTC)
    since = datetime.now(UTC) - last
    if since <= limit:
        typer.echo(f"{stack}: {'the last look was' if looks else 'nobody looked yet; it came up'} {since.total_seconds() / 3600:.0f} h ago")
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
