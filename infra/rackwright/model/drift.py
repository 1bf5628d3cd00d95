"""Drift settings: ignore rules with a reason and an expiry date, notifications, metrics."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.units import Day
from rackwright.model.update_policy import UpdatePolicy

MailAddress = Annotated[str, Field(pattern=r"^[^@\s,<>]+@[^@\s,<>]+$")]


class IgnoreRule(ConfigModel):
    """A difference that `rackwright drift` reports as expected."""

    subject: Annotated[str, UpdatePolicy.RUN] = Field(
        min_length=1, description="Subject as printed by `rackwright drift`, for example slurm.node_takes_jobs; `*` is a wildcard."
    )
    node: Annotated[str, UpdatePolicy.RUN] = Field(default="*", min_length=1, description="Node name, or a pattern of node names.")
    reason: Annotated[str, UpdatePolicy.RUN] = Field(min_length=5, description="Reason for ignoring the difference.")
    until: Annotated[Day, UpdatePolicy.RUN] = Field(
        description="Last day of the rule, for example 2026-12-01; an expired rule is itself reported as a difference."
    )


class Mail(ConfigModel):
    """Mail notifications."""

    to: Annotated[tuple[MailAddress, ...], UpdatePolicy.RUN] = Field(min_length=1, description="Recipients.")
    sender: Annotated[MailAddress | None, UpdatePolicy.RUN] = Field(default=None, description="Sender. Default: the first address of `to`.")
    smarthost: Annotated[str, UpdatePolicy.RUN] = Field(
        default="localhost",
        pattern=r"^[A-Za-z0-9.-]+(:[0-9]+)?$",
        description="Mail server that accepts mail without authentication: host or host:port.",
    )


class Notify(ConfigModel):
    """Notifications when the result of a drift scan differs from the previous one."""

    mail: Annotated[Mail | None, UpdatePolicy.RUN] = Field(default=None, description="Mail notifications.")
    webhook_url_file: Annotated[str | None, UpdatePolicy.RUN] = Field(
        default=None, pattern=r"^/", description="File that contains the URL of a webhook, which receives JSON with the key `text`."
    )
    command: Annotated[tuple[str, ...], UpdatePolicy.RUN] = Field(
        default=(), description="Program and its arguments; it receives the message on standard input."
    )


class DriftPolicy(ConfigModel):
    """Settings of `rackwright drift`: ignore rules, notifications, metrics, baseline."""

    ignore: Annotated[tuple[IgnoreRule, ...], UpdatePolicy.RUN] = Field(
        default=(), description="Ignore rules: differences that are expected until a date."
    )
    notify: Annotated[Notify, UpdatePolicy.RUN] = Field(default=Notify(), description="Notifications when the result of a scan changes.")
    textfile_directory: Annotated[str | None, UpdatePolicy.RUN] = Field(
        default=None,
        pattern=r"^/",
        description="Directory of node_exporter's textfile collector on the machine that scans; a scan writes `rackwright-<stack>.prom`.",
    )
    host_baseline: Annotated[bool, UpdatePolicy.RUN] = Field(
        default=True,
        description="Compare nodes with a baseline in a known good state: accounts, keys, files under /etc, packages, units, sockets.",
    )
