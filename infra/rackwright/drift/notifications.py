"""Notifications about drift: when they are sent, and the channels."""

from __future__ import annotations

import json
import os
import smtplib
import subprocess
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from pathlib import Path
from typing import Final

from rackwright.drift.difference import Category, DriftItem, Layer, where
from rackwright.drift.document import DriftReport, State
from rackwright.drift.history import HistoryDelta

_PATIENCE: Final = 30.0
"""Timeout of each channel, in seconds."""
_LISTED: Final = 20
"""Maximum number of differences in a message; the page lists all."""


@dataclass(frozen=True, slots=True)
class Message:
    """A notification."""

    stack: str
    state: State
    subject: str
    body: str


@dataclass(frozen=True, slots=True)
class Channels:
    """Notification channels; empty ones are not used."""

    mail_to: Sequence[str] = ()
    mail_from: str = ""
    mail_server: str = "localhost"
    """`host` or `host:port`; without a port 25."""
    webhook_url_file: Path | None = None
    """File with the URL only: the URL permits posting, so it is a secret and not part of the stack file."""
    command: Sequence[str] = ()
    """Command that receives the message on standard input, and RACKWRIGHT_STACK and RACKWRIGHT_DRIFT_STATE in its environment."""


def message(found: DriftReport, changes: HistoryDelta, page: Path) -> Message | None:
    """Return the message about a changed state or a new unexpected difference; None if neither occurred.

    A clean first scan sends no message.
    """
    new = [one for one in changes.new if one.category is not Category.EXPECTED]
    if found.state is (changes.before or State.CLEAN) and not new:
        return None
    lines = [f"{found.stack}: {found.state.value}" + (f", was {changes.before.value}" if changes.before else "")]
    lines += [f"new, {one.category.value}: {one.subject} on {where(one.node)}{_live(one)}" for one in new[:_LISTED]]
    lines += [f"and {len(new) - _LISTED} more"] if len(new) > _LISTED else []
    lines += [f"unknown: {where(node)}, {layer.value}: {why}" for layer, node, why in found.unknown[:_LISTED]]
    lines += [f"resolved: {one.subject} on {where(one.node)}" for one in changes.resolved[:_LISTED]]
    body = "\n".join([*lines, "", f"page: {page}", f"run: rackwright drift {found.stack}"])
    return Message(found.stack, found.state, f"rackwright: {lines[0]}", body)


def _live(one: DriftItem) -> str:
    """Return the live value, except lines of files, which are never sent."""
    return "" if one.layer is Layer.CONFIGURATION else f": {one.live}"


def overdue(stack: str, since: timedelta, most: timedelta) -> Message:
    """Return the message that no scan finished in time, which a stopped timer cannot report itself."""
    hours, wanted = since.total_seconds() / 3600, most.total_seconds() / 3600
    text = f"{stack}: no drift scan finished for {hours:.0f} h (expected: every {wanted:.0f} h)"
    unit = f"rackwright-drift-{stack}"
    return Message(stack, State.UNKNOWN, f"rackwright: {text}", f"{text}\ncheck `systemctl status {unit}.timer` and `journalctl -u {unit}`")


def send(notification: Message, channels: Channels) -> list[str]:
    """Send the message through every channel; return the errors, without secret URLs."""
    wrong = []
    for name, wanted, way in (
        ("mail", bool(channels.mail_to), _mail),
        ("webhook", channels.webhook_url_file is not None, _webhook),
        ("command", bool(channels.command), _command),
    ):
        try:
            if wanted:
                way(notification, channels)
        except (OSError, ValueError, subprocess.SubprocessError, smtplib.SMTPException) as error:
            wrong.append(f"{name} notification failed: {error}")
    return wrong


def _mail(message: Message, channels: Channels) -> None:
    letter = EmailMessage()
    letter["Subject"], letter["To"] = message.subject, ", ".join(channels.mail_to)
    letter["From"] = sender = channels.mail_from or channels.mail_to[0]
    letter["Date"], letter["Message-ID"] = formatdate(), make_msgid(domain=sender.partition("@")[2] or None)  # RFC 5322, 3.6
    letter.set_content(message.body)
    host, _, port = channels.mail_server.partition(":")
    with smtplib.SMTP(host, int(port or 25), timeout=_PATIENCE) as server:
        server.send_message(letter)


def _webhook(message: Message, channels: Channels) -> None:
    """Post the message; Slack, Mattermost and others show `text`."""
    assert channels.webhook_url_file is not None
    address = channels.webhook_url_file.read_text(encoding="utf-8").strip()
    if not address.startswith(("https://", "http://")):
        raise ValueError(f"{channels.webhook_url_file} does not contain an http or https URL")
    data = {"text": f"{message.subject}\n{message.body}", "stack": message.stack, "state": message.state.value}
    request = urllib.request.Request(address, json.dumps(data).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=_PATIENCE):
        pass


def _command(message: Message, channels: Channels) -> None:
    environment = {**os.environ, "RACKWRIGHT_STACK": message.stack, "RACKWRIGHT_DRIFT_STATE": message.state.value}
    done = subprocess.run(
        list(channels.command),
        input=f"{message.subject}\n{message.body}\n",
        text=True,
        env=environment,
        timeout=_PATIENCE,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise OSError(f"{channels.command[0]} exited with {done.returncode}: {done.stderr.strip()[-200:]}")
