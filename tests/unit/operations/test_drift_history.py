"""The history of drift scans as data, and the notification about scans that do not finish."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest

from rackwright.drift.difference import Category, DriftItem, Layer, LayerScan
from rackwright.drift.document import DriftReport
from rackwright.drift.history import History
from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.operations.drift import publication
from rackwright.operations.drift.history import check_age, read_history

STOPPED = DriftItem(Layer.BEHAVIOUR, "worker0", "munge.service_runs", "active", "inactive", Category.BREAKING, "start it")


def record(started: datetime) -> None:
    scans = (LayerScan(Layer.RESOURCES, 1.0), LayerScan(Layer.CONFIGURATION, 1.0), LayerScan(Layer.BEHAVIOUR, 1.0, (STOPPED,)))
    History(paths.drift_history("lab")).record(DriftReport("lab", "0" * 12, started, 2.0, scans))


@pytest.fixture
def sent(lab: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The subjects of the notifications of stack `lab`, each of which fails on one channel."""
    found: list[str] = []
    monkeypatch.setattr(publication, "send", lambda message, policy: found.append(message.subject) or ["webhook notification failed"])
    return found


def test_history_holds_last_scans_and_differences(lab: str) -> None:
    now = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)
    for days in (2, 1, 0):
        record(now - timedelta(days=days))
    found = read_history(lab, 2)
    assert [one.started for one in found.scans] == [now, now - timedelta(days=1)]
    assert [(one.difference, one.first) for one in found.differences] == [(STOPPED, now - timedelta(days=2))]


def test_history_without_scan_is_refused(lab: str) -> None:
    with pytest.raises(InputError, match="no drift scan has run yet"):
        read_history(lab, 1)
    assert not paths.drift_history(lab).exists()


def test_late_scan_is_reported_always_and_notified_once(sent: list[str]) -> None:
    record(datetime.now(UTC) - timedelta(hours=30))
    said: list[str] = []
    for _ in range(2):
        found = check_age("lab", "26h", said.append)
        assert found.overdue and found.scanned and timedelta(hours=30) <= found.age < timedelta(hours=31)
    assert len(sent) == 1
    assert [text == "webhook notification failed" for text in said] == [False, True, False]


def test_recent_scan_is_not_notified(sent: list[str]) -> None:
    record(datetime.now(UTC) - timedelta(hours=2))
    said: list[str] = []
    found = check_age("lab", "26h", said.append)
    assert (found.overdue, found.scanned, sent, said) == (False, True, [], [])


def test_age_before_first_scan_is_that_of_stack(sent: list[str]) -> None:
    assert not check_age("lab", "1h", print).overdue
    os.utime(paths.inventory("lab"), (0, 0))
    found = check_age("lab", "1h", lambda text: None)
    assert found.overdue and not found.scanned and len(sent) == 1


@pytest.mark.parametrize(
    ("age", "cause", "hint"),
    [
        ("soon", "'soon' is not a duration", "like 5m"),
        ("26", "'26' is not a duration", "like 5m"),
        ("30000d", "`30000d` is too long", "at most 24855d"),
    ],
)
def test_age_that_is_no_duration_is_refused(lab: str, age: str, cause: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"--max-age: {cause}") as refused:
        check_age(lab, age, print)
    assert hint in str(refused.value.hint)
