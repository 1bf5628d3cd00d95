"""Receivers of alerts, and the service that notices when alerting stops. Secrets are files on this machine, never part of a stack file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.drift import MailAddress
from rackwright.model.units import Seconds
from rackwright.model.update_policy import UpdatePolicy

SecretFile = Annotated[str, Field(pattern=r"^[/~]\S*$")]
"""Path of a file on this machine; `~` is the home of the user who runs `up`."""
LeastSeverity = Literal["critical", "warning"]


class _Receiver(ConfigModel):
    """Settings of every kind of receiver."""

    severity: Annotated[LeastSeverity, UpdatePolicy.RESTART] = Field(
        default="warning", description="Least severity that is sent. Default: warning, which is every alert."
    )


class Webhook(_Receiver):
    """A receiver of alerts by HTTP: Alertmanager posts JSON to its URL."""

    kind: Annotated[Literal["webhook"], UpdatePolicy.RESTART] = Field(description="Kind of the receiver.")
    url_file: Annotated[SecretFile, UpdatePolicy.RESTART] = Field(
        description="File on this machine that contains only the URL, which may hold a token and is copied to the monitoring node only."
    )


class Email(_Receiver):
    """A receiver of alerts by e-mail."""

    kind: Annotated[Literal["email"], UpdatePolicy.RESTART] = Field(description="Kind of the receiver.")
    to: Annotated[tuple[MailAddress, ...], UpdatePolicy.RESTART] = Field(min_length=1, description="Recipients.")
    sender: Annotated[MailAddress, UpdatePolicy.RESTART] = Field(description="Sender.")
    smarthost: Annotated[str, UpdatePolicy.RESTART] = Field(
        pattern=r"^[A-Za-z0-9.-]+:[0-9]{1,5}$", description="Mail server as host:port, reached from the monitoring node."
    )
    username: Annotated[str | None, UpdatePolicy.RESTART] = Field(
        default=None, min_length=1, description="User at the mail server. Default: no authentication."
    )
    password_file: Annotated[SecretFile | None, UpdatePolicy.RESTART] = Field(
        default=None, description="File on this machine that contains only the password; copied to the monitoring node only."
    )
    require_tls: Annotated[bool, UpdatePolicy.RESTART] = Field(
        default=True, description="Refuse a mail server without TLS. Default: true; false for a relay that has none."
    )


class Slack(_Receiver):
    """A receiver of alerts as messages in Slack, or in a chat that accepts its messages."""

    kind: Annotated[Literal["slack"], UpdatePolicy.RESTART] = Field(description="Kind of the receiver.")
    url_file: Annotated[SecretFile, UpdatePolicy.RESTART] = Field(
        description="File on this machine that contains only the URL of the incoming webhook; copied to the monitoring node only."
    )
    channel: Annotated[str | None, UpdatePolicy.RESTART] = Field(
        default=None, pattern=r"^[#@]?[^\s#@]+$", description="Channel or user. Default: that of the incoming webhook."
    )


class PagerDuty(_Receiver):
    """A receiver of alerts as incidents of PagerDuty (Events API v2)."""

    kind: Annotated[Literal["pagerduty"], UpdatePolicy.RESTART] = Field(description="Kind of the receiver.")
    key_file: Annotated[SecretFile, UpdatePolicy.RESTART] = Field(
        description="File on this machine that contains only the integration key of the service; copied to the monitoring node only."
    )


Receiver = Annotated[Webhook | Email | Slack | PagerDuty, Field(discriminator="kind")]


class DeadmanSwitch(ConfigModel):
    """A service outside the cluster that expects a message at an interval, and tells people when it is missing."""

    url_file: Annotated[SecretFile, UpdatePolicy.RESTART] = Field(
        description="File on this machine that contains only the URL to which Alertmanager posts; copied to the monitoring node only."
    )
    interval: Annotated[Seconds, UpdatePolicy.RESTART] = Field(
        default=60, description="Time between two messages, as the service expects it. Default: 1m."
    )


def secret_file(receiver: Webhook | Email | Slack | PagerDuty) -> tuple[str, str] | None:
    """Return key and path of the file with a receiver's secret; None for a mail server without authentication."""
    match receiver:
        case Webhook() | Slack():
            return "url_file", receiver.url_file
        case PagerDuty():
            return "key_file", receiver.key_file
        case Email():
            return ("password_file", receiver.password_file) if receiver.password_file else None
