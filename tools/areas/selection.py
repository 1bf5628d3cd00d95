"""Selection of areas: those that a change affects, their order, and those that fit a time budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from areas.table import Area, Pass

UNKNOWN_SECONDS: Final = 300
"""Expected duration of an area that never passed."""


@dataclass(frozen=True)
class Selection:
    """Areas to run, and the others by reason: no room left, longer than the whole budget, run by other targets, without a change."""

    run: list[Area] = field(default_factory=list)
    postponed: list[Area] = field(default_factory=list)
    too_long: list[Area] = field(default_factory=list)
    elsewhere: list[Area] = field(default_factory=list)
    unchanged: list[Area] = field(default_factory=list)


def select(
    areas: Sequence[Area], passes: Mapping[str, Pass], changed: Callable[[str], list[str] | None], budget: float, workers: int, turn: int
) -> Selection:
    """Select the areas with a change since their last pass, the longest untested first, as long as they fit the budget.

    Args:
        changed: returns the files that differ from a commit, None where the commit is unknown.
        budget: seconds.
        workers: tests that run at the same time.
        turn: a number that grows with each commit. Areas that passed in the same run take turns, so that none is postponed for ever.
    """
    selection = Selection()
    called: list[Area] = []
    for area in areas:
        last = passes.get(area.name)
        files = changed(last.commit) if last else None
        if files is not None and not any(area.covers(file) for file in files):
            selection.unchanged.append(area)
        else:
            (selection.elsewhere if area.only else called).append(area)
    for area in _in_order(called, passes, turn):
        if seconds_needed([area], passes, workers) > budget:
            selection.too_long.append(area)
            continue
        fits = seconds_needed([*selection.run, area], passes, workers) <= budget
        (selection.run if fits else selection.postponed).append(area)
    return selection


def _in_order(areas: Sequence[Area], passes: Mapping[str, Pass], turn: int) -> list[Area]:
    """Return the areas by the time of their last pass; the first of those that passed in the same run changes with each turn."""
    by_time: dict[str, list[Area]] = {}
    for area in areas:
        by_time.setdefault(passes[area.name].time if area.name in passes else "", []).append(area)
    ordered = []
    for _, group in sorted(by_time.items()):
        start = turn % len(group)
        ordered += [*group[start:], *group[:start]]
    return ordered


def seconds_needed(areas: Sequence[Area], passes: Mapping[str, Pass], workers: int) -> float:
    """Estimate the wall time of parallel areas: those of one lab in one worker, the longest first."""
    jobs: dict[str, float] = {}
    for area in areas:
        key = area.worker or f"area {area.name}"
        jobs[key] = jobs.get(key, 0) + (passes[area.name].seconds if area.name in passes else UNKNOWN_SECONDS)
    loads = [0.0] * max(1, workers)
    for seconds in sorted(jobs.values(), reverse=True):
        loads[loads.index(min(loads))] += seconds
    return max(loads)
