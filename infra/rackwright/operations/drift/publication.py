"""Notifications and metrics of a drift scan. They follow the current stack file and take effect without an `up`."""

from __future__ import annotations

from pathlib import Path

from rackwright.drift import notifications
from rackwright.drift.document import DriftReport
from rackwright.errors import InputError
from rackwright.model.drift import DriftPolicy, Notify


def policy(file: Path) -> DriftPolicy:
    """Return the `drift` section of a stack file.

    Raises InputError with all findings if the file has errors: it may contain ignore rules or recipients.
    """
    from rackwright.operations.stack import validate

    judged = validate(file)
    if judged.loaded.cluster is None:
        raise InputError("\n".join(str(finding) for finding in judged.findings))
    return judged.loaded.cluster.drift


def send(message: notifications.Message | None, found: DriftPolicy) -> list[str]:
    """Send the message, if there is one, over every configured channel; return the failures."""
    return notifications.send(message, _channels(found.notify)) if message else []


def write_metrics(found: DriftReport, policy: DriftPolicy) -> list[str]:
    """Write the Prometheus metrics if the stack file names a folder; return the failure, if there is one."""
    if policy.textfile_directory is None:
        return []
    from rackwright.drift import metrics

    file = Path(policy.textfile_directory) / f"rackwright-{found.stack}.prom"
    try:
        metrics.write(found, file)
    except OSError as error:
        return [f"{file}: cannot write the metrics: {error.strerror or error} (`drift.textfile_directory` in the stack file)"]
    return []


def _channels(found: Notify) -> notifications.Channels:
    mail = found.mail
    return notifications.Channels(
        mail_to=mail.to if mail else (),
        mail_from=(mail.sender or "") if mail else "",
        mail_server=mail.smarthost if mail else "localhost",
        webhook_url_file=Path(found.webhook_url_file) if found.webhook_url_file else None,
        command=found.command,
    )
