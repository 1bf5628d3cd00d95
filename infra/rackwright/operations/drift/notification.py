"""Notifications and metrics of a drift scan. They follow the current stack file and take effect without an `up`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import typer

from rackwright.drift import notify
from rackwright.drift.document import DriftReport
from rackwright.drift.history import History
from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.model.drift import DriftPolicy, Notify
from rackwright.model.units import parse_seconds


def policy(stack: str) -> DriftPolicy:
    """Return the `drift` section of the stack file.

    Raises InputError with all findings if the file has errors: it may contain ignore rules or recipients.
    """
    from rackwright.operations.stack import load_and_validate

    judged = load_and_validate(stack)
    if judged.loaded.cluster is None:
        raise InputError("\n".join(str(finding) for finding in judged.findings))
    return judged.loaded.cluster.drift


def tell(message: notify.Message | None, found: DriftPolicy) -> None:
    """Send the message, if there is one, over every configured channel; print failures on standard error."""
    if message is None:
        return
    for wrong in notify.send(message, _channels(found.notify)):
        typer.echo(wrong, err=True)


def write_metrics(found: DriftReport, policy: DriftPolicy) -> None:
    """Write the Prometheus metrics if the stack file names a folder; print a failure on standard error."""
    if policy.textfile_directory is None:
        return
    from rackwright.drift import metrics

    file = Path(policy.textfile_directory) / f"rackwright-{found.stack}.prom"
    try:
        metrics.write(found, file)
    except OSError as error:
        typer.echo(f"{file}: cannot write the metrics: {error.strerror or error} (`drift.textfile_directory` in the stack file)", err=True)


def overdue(stack: str, kept: History, most: str) -> int:
    """Return exit code 0 if the last scan is younger than `most`, else 3 after sending one notification per gap between scans.

    Before the first scan, the age counts from the creation of the stack, so that a timer that never ran is reported as well.
    Raises InputError if `most` is not a duration.
    """
    from pydantic_core import PydanticCustomError

    try:
        limit = timedelta(seconds=parse_seconds(most))
    except PydanticCustomError as error:
        raise InputError(f"`{most}` is not a duration", path="--max-age", hint="pass a number and h or d, like 26h") from error
    looks = kept.looks(1)
    last = looks[0].started if looks else datetime.fromtimestamp(paths.inventory(stack).stat().st_mtime, UTC)
    since = datetime.now(UTC) - last
    if since <= limit:
        hours = f"{since.total_seconds() / 3600:.0f} h ago"
        typer.echo(f"{stack}: {'last scan' if looks else 'no scan since the stack was created'} {hours}")
        return 0
    message = notify.overdue(stack, since, limit)
    typer.echo(message.body, err=True)
    if not kept.already_notified(f"no look since {last.isoformat()}"):
        tell(message, policy(stack))
    return 3


def _channels(found: Notify) -> notify.Channels:
    mail = found.mail
    return notify.Channels(
        mail_to=mail.to if mail else (),
        mail_from=(mail.sender or "") if mail else "",
        mail_server=mail.smarthost if mail else "localhost",
        webhook_url_file=Path(found.webhook_url_file) if found.webhook_url_file else None,
        command=found.command,
    )
