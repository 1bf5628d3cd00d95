"""Expired stacks and their destruction. Pulumi is called through one function, so that tests can replace it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from rackwright.drivers import pulumi
from rackwright.drivers.shown_process import STDERR, run_shown
from rackwright.errors import UndeterminedError
from rackwright.inventory import paths


class ExpiryOutcome(StrEnum):
    """Result for one stack."""

    DESTROYED = "destroyed"
    WOULD_DESTROY = "would-destroy"
    NOT_EXPIRED = "not-expired"
    NO_EXPIRY = "no-expiry"
    """No recorded expiry: the budget has no ttl, or the stack was never created."""
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ExpiryResult:
    """One stack of the backend, its result and its expiry."""

    stack: str
    outcome: ExpiryOutcome
    expires: datetime | None = None
    reason: str = ""
    was_interrupted: bool = False

    def __str__(self) -> str:
        texts = {
            ExpiryOutcome.DESTROYED: f"destroyed; expired at {self.when}",
            ExpiryOutcome.WOULD_DESTROY: f"would be destroyed; expired at {self.when}",
            ExpiryOutcome.NOT_EXPIRED: f"expires at {self.when}",
            ExpiryOutcome.NO_EXPIRY: "has no recorded expiry",
            ExpiryOutcome.FAILED: f"expired at {self.when}, but `pulumi destroy` failed: {self.reason}",
            ExpiryOutcome.UNKNOWN: f"expiry unknown: {self.reason}",
        }
        return f"{self.stack}: {texts[self.outcome]}"

    @property
    def when(self) -> str:
        """Return the expiry as text in UTC, or `-`."""
        return f"{self.expires:%Y-%m-%d %H:%M} UTC" if self.expires else "-"


@dataclass(frozen=True)
class PulumiOutput:
    """Exit code and output of a `pulumi` process."""

    code: int
    out: str
    err: str
    was_interrupted: bool = False


PulumiCommand = Callable[..., PulumiOutput]
"""Runs `pulumi` with arguments; with `shown`, its output goes to standard error."""


def run_pulumi(*arguments: str, shown: bool = False) -> PulumiOutput:
    """Run this environment's `pulumi`."""
    command = [str(pulumi.executable()), *arguments, "--non-interactive"]
    root, null = paths.project_root(), subprocess.DEVNULL
    if shown:
        ended = run_shown(command, cwd=root, stdin=null, to=STDERR)
        return PulumiOutput(ended.status, "", "", ended.was_interrupted)
    done = subprocess.run(command, cwd=root, stdin=null, capture_output=True, text=True, encoding="utf-8", check=False)
    return PulumiOutput(done.returncode, done.stdout, done.stderr)


def destroy_expired(run: PulumiCommand, now: datetime, *, dry_run: bool) -> Iterator[ExpiryResult]:
    """Yield the result of every stack of the backend as soon as it is known. Continue after a failure, and end after an interrupted run."""
    for stack in _stacks(run):
        result = _one(run, stack, now, dry_run=dry_run)
        yield result
        if result.was_interrupted:
            return


def exit_code(outcomes: Sequence[ExpiryOutcome]) -> int:
    """Return 3 if an expiry is unknown, 1 if an expired stack was not destroyed, else 0."""
    return 3 if ExpiryOutcome.UNKNOWN in outcomes else 1 if ExpiryOutcome.FAILED in outcomes else 0


def _stacks(run: PulumiCommand) -> list[str]:
    """Return the unqualified names of the stacks that have resources; raise UndeterminedError if Pulumi cannot list them."""
    result = run("stack", "ls", "--json")
    try:
        listed: list[dict[str, Any]] = json.loads(result.out) if result.code == 0 else []
    except ValueError:
        result = PulumiOutput(1, "", "its output is not JSON")
    if result.code:
        raise UndeterminedError(
            f"`pulumi stack ls`: {_error_message(result)}", hint="run `pulumi login` to choose the backend whose stacks are listed"
        )
    return [entry["name"].rpartition("/")[2] for entry in listed if entry.get("resourceCount") != 0]


def _one(run: PulumiCommand, stack: str, now: datetime, *, dry_run: bool) -> ExpiryResult:
    result = run("stack", "output", "--json", "--stack", stack)
    try:
        outputs = json.loads(result.out) if result.code == 0 else None
        expires = _parse_expiry(outputs["expires"]) if outputs and "expires" in outputs else None
    except (ValueError, TypeError) as unreadable:
        return ExpiryResult(stack, ExpiryOutcome.UNKNOWN, reason=str(unreadable))
    if outputs is None:
        return ExpiryResult(stack, ExpiryOutcome.UNKNOWN, reason=_error_message(result))
    if expires is None:
        return ExpiryResult(stack, ExpiryOutcome.NO_EXPIRY)
    if expires > now:
        return ExpiryResult(stack, ExpiryOutcome.NOT_EXPIRED, expires)
    if dry_run:
        return ExpiryResult(stack, ExpiryOutcome.WOULD_DESTROY, expires)
    done = run("destroy", "--stack", stack, "--yes", "--skip-preview", shown=True)
    return ExpiryResult(
        stack,
        ExpiryOutcome.FAILED if done.code else ExpiryOutcome.DESTROYED,
        expires,
        ("interrupted, see above" if done.was_interrupted else f"exit code {done.code}, see above") if done.code else "",
        done.was_interrupted,
    )


def _parse_expiry(text: str) -> datetime:
    """Parse an expiry; a timestamp without a time zone is UTC, as the Pulumi program exports it."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _error_message(result: PulumiOutput) -> str:
    lines = [line.strip() for line in result.err.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or ["no output"])[-1]
