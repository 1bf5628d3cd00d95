"""The history of a running stack's drift scans: its content, and a notification if no scan finished for too long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rackwright.drift import notifications
from rackwright.drift.history import DriftRecord, History, ScanRecord
from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import require_up
from rackwright.model.notation import hint_of
from rackwright.model.units import parse_seconds
from rackwright.operations.drift import publication
from rackwright.stackfile.load import find_stack_file


@dataclass(frozen=True, slots=True)
class DriftHistory:
    """The last scans of a stack, the newest first, and every difference on record."""

    scans: tuple[ScanRecord, ...]
    differences: tuple[DriftRecord, ...]


@dataclass(frozen=True, slots=True)
class ScanAge:
    """Age of the last finished scan of a stack."""

    age: timedelta
    scanned: bool
    """False before the first scan: the age then counts from the creation of the stack."""
    overdue: bool


def read_history(stack: str, limit: int) -> DriftHistory:
    """Return the last `limit` scans and all differences; raise InputError if the stack is not up or no scan has run."""
    file = paths.drift_history(stack)
    if not file.is_file():
        require_up(stack)
        raise InputError("no drift scan has run yet", path=f"stack {stack}", hint=f"run `rackwright drift {stack}`")
    history = History(file)
    return DriftHistory(tuple(history.scans(limit)), tuple(history.differences()))


def check_age(stack: str, most: str, say: Callable[[str], None]) -> ScanAge:
    """Return the age of the last scan; if it exceeds `most`, send one notification per gap between scans.

    `say` receives the text of the notification, then the failures to send it. Before the first scan, the age counts from the creation
    of the stack, so that a timer that never ran is reported as well.
    Raises InputError if the stack is not up or `most` is not a duration.
    """
    require_up(stack)
    limit, history = _max_age(most), History(paths.drift_history(stack))
    scans = history.scans(1)
    last = scans[0].started if scans else datetime.fromtimestamp(paths.inventory(stack).stat().st_mtime, UTC)
    age = datetime.now(UTC) - last
    if age > limit:
        message = notifications.overdue(stack, age, limit)
        say(message.body)
        if not history.already_notified(f"no scan since {last.isoformat()}"):
            for failure in publication.send(message, publication.policy(find_stack_file(stack, paths.stacks()))):
                say(failure)
    return ScanAge(age, bool(scans), overdue=age > limit)


def _max_age(text: str) -> timedelta:
    from pydantic_core import PydanticCustomError

    try:
        return timedelta(seconds=parse_seconds(text))
    except PydanticCustomError as error:
        raise InputError(str(error), path="--max-age", hint=hint_of(error)) from error
