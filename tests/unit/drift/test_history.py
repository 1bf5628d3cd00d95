"""When a difference was first seen and resolved; an unresponsive node resolves nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rackwright.drift.difference import Category, DriftItem, Layer, LayerScan
from rackwright.drift.document import DriftReport, State
from rackwright.drift.history import History

NIGHT = datetime(2026, 11, 1, 3, 0, tzinfo=UTC)


def differs(subject: str = "munge.is_active", live: str = "dead") -> DriftItem:
    return DriftItem(Layer.BEHAVIOUR, "worker0", subject, "active", live, Category.BREAKING, "start it")


def night(
    number: int, *differences: DriftItem, unknown: tuple[tuple[str, str], ...] = (), layers: tuple[Layer, ...] = tuple(Layer)
) -> DriftReport:
    """Record the differences of one night."""
    scans = [
        LayerScan(layer, 1.0, differences if layer is Layer.BEHAVIOUR else (), unknown if layer is Layer.BEHAVIOUR else ())
        for layer in layers
    ]
    return DriftReport("lab", "0" * 12, NIGHT + timedelta(days=number), 5.0, tuple(scans))


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "lab" / "drift.sqlite")


def test_difference_is_new_then_known_then_resolved(history: History) -> None:
    assert history.record(night(0, differs())).new == (differs(),)
    assert history.record(night(1, differs(live="failed"))).new == ()
    changes = history.record(night(2))
    assert [one.id for one in changes.resolved] == [differs().id] and changes.before is State.DRIFTED
    (seen,) = history.differences()
    assert (seen.first, seen.last, seen.resolved) == (NIGHT, NIGHT + timedelta(days=1), NIGHT + timedelta(days=2))
    assert seen.difference.live == "failed"


def test_returning_difference_is_new_again(history: History) -> None:
    history.record(night(0, differs()))
    history.record(night(1))
    assert history.record(night(2, differs())).new == (differs(),)
    assert [one.resolved is None for one in history.differences()] == [True, False]


@pytest.mark.parametrize(
    "silence",
    [{"unknown": (("worker0", "unreachable"),)}, {"unknown": (("", "no engine"),)}, {"layers": (Layer.RESOURCES, Layer.CONFIGURATION)}],
)
def test_unresponsive_node_resolves_nothing(history: History, silence: dict[str, tuple[tuple[str, str], ...]]) -> None:
    history.record(night(0, differs()))
    assert history.record(night(1, **silence)).resolved == ()  # type: ignore[arg-type]
    assert history.differences()[0].resolved is None


def test_unresponsive_node_affects_no_other_node(history: History) -> None:
    history.record(night(0, differs()))
    assert history.record(night(1, unknown=(("worker1", "unreachable"),))).resolved == (differs(),)


def test_scans_are_listed_newest_first(history: History) -> None:
    for number in range(3):
        history.record(night(number))
    assert [past.started for past in history.scans(2)] == [NIGHT + timedelta(days=2), NIGHT + timedelta(days=1)]
    assert history.scans(1)[0].state is State.CLEAN


def test_old_scans_are_removed_and_open_differences_kept(history: History) -> None:
    history.record(night(0, differs("a.b"), differs("c.d")))
    history.record(night(1, differs("c.d")))
    history.record(night(90, differs("c.d")))
    assert history.prune(timedelta(days=30), NIGHT + timedelta(days=90)) == 2
    assert [one.difference.subject for one in history.differences()] == ["c.d"]


def test_history_is_readable_only_by_owner(history: History, tmp_path: Path) -> None:
    history.record(night(0))
    assert (tmp_path / "lab" / "drift.sqlite").stat().st_mode & 0o777 == 0o600
