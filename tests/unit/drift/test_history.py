"""First seen, still there, healed when: and that silence heals nothing."""

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
    """What was found in a night."""
    scans = [
        LayerScan(layer, 1.0, differences if layer is Layer.BEHAVIOUR else (), unknown if layer is Layer.BEHAVIOUR else ())
        for layer in layers
    ]
    return DriftReport("lab", "0" * 12, NIGHT + timedelta(days=number), 5.0, tuple(scans))


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "lab" / "drift.sqlite")


def test_a_difference_is_new_once_then_still_there_then_healed(history: History) -> None:
    assert history.record(night(0, differs())).new == (differs(),)
    assert history.record(night(1, differs(live="failed"))).new == ()
    changes = history.record(night(2))
    assert [one.id for one in changes.healed] == [differs().id] and changes.before is State.DRIFTED
    (seen,) = history.seen()
    assert (seen.first, seen.last, seen.healed) == (NIGHT, NIGHT + timedelta(days=1), NIGHT + timedelta(days=2))
    assert seen.difference.live == "failed"


def test_one_that_comes_back_is_new_again(history: History) -> None:
    history.record(night(0, differs()))
    history.record(night(1))
    assert history.record(night(2, differs())).new == (differs(),)
    assert [one.healed is None for one in history.seen()] == [True, False]


@pytest.mark.parametrize(
    "silence",
    [{"unknown": (("worker0", "unreachable"),)}, {"unknown": (("", "no engine"),)}, {"layers": (Layer.RESOURCES, Layer.CONFIGURATION)}],
)
def test_silence_heals_nothing(history: History, silence: dict[str, tuple[tuple[str, str], ...]]) -> None:
    history.record(night(0, differs()))
    assert history.record(night(1, **silence)).healed == ()  # type: ignore[arg-type]
    assert history.seen()[0].healed is None


def test_another_nodes_silence_is_no_reason_to_doubt_this_one(history: History) -> None:
    history.record(night(0, differs()))
    assert history.record(night(1, unknown=(("worker1", "unreachable"),))).healed == (differs(),)


def test_looks_are_listed_the_newest_first(history: History) -> None:
    for number in range(3):
        history.record(night(number))
    assert [past.started for past in history.scans(2)] == [NIGHT + timedelta(days=2), NIGHT + timedelta(days=1)]
    assert history.scans(1)[0].state is State.CLEAN


def test_what_is_old_goes_and_what_is_still_there_stays(history: History) -> None:
    history.record(night(0, differs("a.b"), differs("c.d")))
    history.record(night(1, differs("c.d")))
    history.record(night(90, differs("c.d")))
    assert history.forget(timedelta(days=30), NIGHT + timedelta(days=90)) == 2
    assert [one.difference.subject for one in history.seen()] == ["c.d"]


def test_it_is_its_owners_alone(history: History, tmp_path: Path) -> None:
    history.record(night(0))
    assert (tmp_path / "lab" / "drift.sqlite").stat().st_mode & 0o777 == 0o600
