"""CI runs the areas with a change, the longest untested first, within its budget."""

from __future__ import annotations

from areas.selection import UNKNOWN_SECONDS, Selection, seconds_needed, select
from areas.table import Area, Pass

DRIFT = Area("drift", ["tests/drift"], ["infra/drift/*"], worker="lab")
HOSTS = Area("hosts", ["tests/hosts"], ["infra/hosts/*", "infra/common.py"], worker="lab")
POWER = Area("power", ["tests/power"], ["infra/power.py", "infra/common.py"])
SOAK = Area("soak", ["tests/soak"], ["infra/*"], only="soak")
AREAS = [DRIFT, HOSTS, POWER, SOAK]


def passed(day: int, seconds: int = 100) -> Pass:
    return Pass(f"commit{day}", f"2026-11-{day:02} 03:00+00:00", seconds, 5, 0)


PASSES = {"drift": passed(3), "hosts": passed(2), "power": passed(1), "soak": passed(1)}


def names(selection: Selection) -> tuple[list[str], ...]:
    """Names to run, postponed, elsewhere, unchanged."""
    parts = (selection.run, selection.postponed, selection.elsewhere, selection.unchanged)
    return tuple([area.name for area in part] for part in parts)


def test_areas_without_a_change_do_not_run() -> None:
    selection = select(AREAS, PASSES, lambda _: ["infra/drift/store.py", "docs/drift.md"], 1000, 2, 0)
    assert names(selection) == (["drift"], [], ["soak"], ["hosts", "power"])


def test_change_counts_from_the_areas_own_last_pass() -> None:
    selection = select(AREAS, PASSES, lambda commit: ["infra/common.py"] if commit == "commit2" else [], 1000, 2, 0)
    assert names(selection)[0] == ["hosts"]


def test_changed_test_calls_for_its_area() -> None:
    assert names(select(AREAS, PASSES, lambda _: ["tests/power/test_power.py"], 1000, 2, 0))[0] == ["power"]


def test_unknown_commit_and_missing_pass_count_as_change() -> None:
    assert names(select(AREAS, PASSES, lambda _: None, 1000, 2, 0))[0] == ["power", "hosts", "drift"]
    assert names(select(AREAS, {}, lambda _: [], 1000, 2, 0))[0] == ["drift", "hosts", "power"]


def test_longest_untested_runs_first_and_the_rest_is_postponed() -> None:
    selection = select(AREAS, PASSES, lambda _: ["infra/common.py", "infra/drift/a"], 150, 1, 0)
    assert names(selection)[:2] == (["power"], ["hosts", "drift"])


def test_smaller_area_fills_what_a_larger_one_leaves() -> None:
    passes = {**PASSES, "hosts": passed(2, 500)}
    assert names(select(AREAS, passes, lambda _: None, 550, 1, 0))[:2] == (["power", "drift"], ["hosts"])


def test_areas_of_one_run_take_turns() -> None:
    passes = dict.fromkeys(("drift", "hosts", "power", "soak"), passed(1))
    first = [names(select(AREAS, passes, lambda _: None, 100, 1, turn))[0] for turn in range(3)]
    assert first == [["drift"], ["hosts"], ["power"]]


def test_area_longer_than_the_budget_holds_up_no_other() -> None:
    selection = select(AREAS, {**PASSES, "power": passed(1, 900)}, lambda _: None, 250, 2, 0)
    assert ([area.name for area in selection.too_long], names(selection)[0]) == (["power"], ["hosts", "drift"])


def test_no_budget_runs_nothing_and_says_what_is_left_out() -> None:
    selection = select(AREAS, PASSES, lambda _: None, -5, 2, 0)
    assert ([area.name for area in selection.too_long], names(selection)[:2]) == (["power", "hosts", "drift"], ([], []))


def test_areas_of_one_lab_share_a_worker() -> None:
    assert seconds_needed([DRIFT, HOSTS, POWER], PASSES, 2) == 200
    assert seconds_needed([DRIFT, HOSTS, POWER], PASSES, 1) == 300
    assert seconds_needed([POWER], {}, 2) == UNKNOWN_SECONDS
    assert seconds_needed([], PASSES, 2) == 0
