"""Receivers of alerts and the dead man's switch: secrets, logins at mail servers, intervals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.model.finding import Severity
from rackwright.model.monitoring import Monitoring
from rackwright.model.receivers import Email
from rackwright.model.units import format_seconds
from rackwright.rules.registry import RuleContext, Violation, rule

MIN_DEADMAN: Final = 60
"""Seconds: the longest scrape interval (rule monitoring-interval), in which the alert behind the message is evaluated once."""
MAX_DEADMAN: Final = 3600
"""Seconds. Chosen: a service that waits longer than an hour reports too late."""


def _emails(case: RuleContext) -> Iterator[tuple[str, Email]]:
    declared = case.cluster.monitoring
    if isinstance(declared, Monitoring):
        yield from ((f"monitoring.receivers.{name}", one) for name, one in declared.receivers.items() if isinstance(one, Email))


@rule("receiver-secret", Severity.WARNING, level_on_deploy=Severity.ERROR)
def receiver_secret(case: RuleContext) -> Iterator[Violation]:
    """Alertmanager would start, and fail at the first alert. A user who only validates may lack the files."""
    for path, problem in case.secret_problems.items():
        if path.startswith("target."):  # The password of a BMC: rule bmc-password-file.
            continue
        yield Violation(path, problem, "write the secret alone into the file, with mode 0600, or correct the path")


@rule("receiver-login")
def receiver_login(case: RuleContext) -> Iterator[Violation]:
    """Alertmanager ignores a password without a user, and sends an empty one for a user without a password."""
    for path, email in _emails(case):
        if email.username and not email.password_file:
            yield Violation(f"{path}.username", "has no password", "add `password_file`, or remove `username`")
        elif email.password_file and not email.username:
            yield Violation(f"{path}.password_file", "belongs to no user", "add `username`, or remove `password_file`")


@rule("receiver-tls")
def receiver_tls(case: RuleContext) -> Iterator[Violation]:
    """All hosts on the way to the mail server could read the password."""
    for path, email in _emails(case):
        if email.password_file and not email.require_tls:
            yield Violation(f"{path}.require_tls", "a password would be sent without TLS", "remove it, or use a relay without a login")


@rule("receiver-smarthost")
def receiver_smarthost(case: RuleContext) -> Iterator[Violation]:
    """Alertmanager refuses a port that does not exist, and keeps its last configuration."""
    for path, email in _emails(case):
        if not 0 < int(email.smarthost.rpartition(":")[2]) < 2**16:
            yield Violation(f"{path}.smarthost", f"{email.smarthost} has no valid port", "use a port from 1 to 65535, usually 587")


@rule("deadman-interval")
def deadman_interval(case: RuleContext) -> Iterator[Violation]:
    """A message cannot come more often than its alert is evaluated."""
    declared = case.cluster.monitoring
    deadman = declared.deadman if isinstance(declared, Monitoring) else None
    if deadman and not MIN_DEADMAN <= deadman.interval <= MAX_DEADMAN:
        limits = f"{format_seconds(MIN_DEADMAN)} and {format_seconds(MAX_DEADMAN)}"
        yield Violation("monitoring.deadman.interval", f"{format_seconds(deadman.interval)} is not between {limits}", "use 1m")
