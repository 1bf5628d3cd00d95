"""The search: halve a slow group, measure both halves side by side, and test the last few nodes in pairs.

The method is adaptive group testing by binary splitting (Hwang, 1972), as Azure/ai-infrastructure-on-azure applies it to NCCL
(skills/slurm/nccl_performance_diagnosis): halves in parallel, suspects beside different known-good nodes, then the rest again.
Added here: paths between two nodes or leaves, which no half shows. Both halves are then halved again, and the quarters are combined.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import median
from typing import Final, TypeVar

from rackwright.checks.acceptance.bisection.culprits import Item, Slow, culprits_of
from rackwright.checks.acceptance.bisection.group_test import (
    CLEARLY,
    Culprit,
    Figure,
    FigureState,
    GroupTest,
    MeasureRound,
    Outcome,
    SearchResult,
    SearchSpace,
    expected_of,
    state_of,
)
from rackwright.errors import UndeterminedError

T = TypeVar("T")
Steps = Generator[tuple[GroupTest, ...], None, T]
"""A part of the search: it yields the tests that it needs next, and ends with what it found."""
_TOURNAMENT: Final = 5
"""Most items that are tested in all pairs, in at most five rounds. Halves of six or more have three: a culprit shows with two others."""


class _LimitReachedError(Exception):
    """The search needs more rounds than it may have."""


def round_limit(nodes: int, rails: int = 0) -> int:
    """Return the rounds that one culprit needs at most, if no measurement has to be repeated.

    Halving needs log2 rounds, and twice as many if the quarters are combined; the rest are all nodes, pairs, and two confirmations.

    >>> round_limit(2), round_limit(256)
    (10, 24)
    """
    return 2 * math.ceil(math.log2(max(nodes, 2))) + 8 + rails


def search(space: SearchSpace, measure: MeasureRound, expected: float | None = None, *, limit: int | None = None) -> SearchResult:
    """Return the smallest parts that explain why a collective over all nodes is slow.

    `expected`: the figure of a group that is as planned, over all rails; None: the median of disjoint pairs, which are measured first.
    `limit`: most rounds (default: four times `round_limit`, so that several culprits and repeated measurements fit).
    """
    running = _Search(space, measure, expected, limit or 4 * round_limit(len(space.nodes), len(space.rails)))
    try:
        return running.run()
    except _LimitReachedError:
        return running.result(Outcome.UNDETERMINED, (), f"no result after {len(running.rounds)} rounds")
    except UndeterminedError as error:
        return running.result(Outcome.UNDETERMINED, (), str(error))


class _Search:
    """A search in progress: its measurements, the better of two if one was repeated."""

    def __init__(self, space: SearchSpace, measure: MeasureRound, expected: float | None, limit: int) -> None:
        self.space, self.expected = space, expected
        self._measure, self._limit = measure, limit
        self.rounds: list[tuple[Figure, ...]] = []
        self.figures: dict[GroupTest, Figure] = {}
        self._place = {node: place for place, node in enumerate(space.nodes)}
        self.recovered = False
        """Whether a slow group was as planned in its second measurement."""

    def run(self) -> SearchResult:
        """Search, confirm what was found, and return it."""
        nodes = self.space.nodes
        if len(nodes) < 2:
            return self.result(Outcome.UNDETERMINED, (), "a collective needs two idle nodes")
        if self.expected is None:
            self._measure_reference()
        self._do([GroupTest(nodes)])
        if not self._slow(nodes):
            return self.result(Outcome.NOT_REPRODUCED if self.recovered else Outcome.AS_PLANNED, ())
        found = [culprit for rail in self._slow_rails() for culprit in self._take(self._locate(rail))]
        confirmed = self._confirmed(found)
        if confirmed:
            return self.result(Outcome.FOUND, confirmed)
        if found or self._better_again(GroupTest(nodes)):
            return self.result(Outcome.NOT_REPRODUCED, ())
        return self.result(Outcome.ONLY_TOGETHER, ())

    def result(self, outcome: Outcome, culprits: Sequence[Culprit], reason: str = "") -> SearchResult:
        """Return a result with all measurements."""
        return SearchResult(outcome, tuple(culprits), self.expected or 0.0, tuple(self.rounds), reason)

    def _measure_reference(self) -> None:
        """Measure disjoint pairs; their median is the expected figure."""
        nodes = self.space.nodes
        pairs = [GroupTest((one, other)) for one, other in zip(nodes[::2], nodes[1::2], strict=False)]
        figures = self._round(pairs)
        self.expected = median(figure.value or 0.0 for figure in figures)
        if not self.expected:
            raise UndeterminedError("most pairs of nodes completed no collective, so that there is no figure to compare with")
        for figure in figures:
            self._keep(figure)
        self._repeat(pairs)

    def _slow_rails(self) -> tuple[str | None, ...]:
        """Return the rails on which all nodes together are slow; None, for all at once, if these are all or none."""
        rails = self.space.rails if len(self.space.rails) > 1 else ()
        self._do([GroupTest(self.space.nodes, rail) for rail in rails])
        slow = tuple(rail for rail in rails if self._slow(self.space.nodes, rail))
        return slow if slow and len(slow) < len(rails) else (None,)

    def _take(self, steps: Steps[T]) -> T:
        """Measure what a part of the search asks for, until it ends."""
        while True:
            try:
                self._do(next(steps))
            except StopIteration as end:
                found: T = end.value
                return found

    def _locate(self, rail: str | None) -> Steps[list[Culprit]]:
        """Find culprits until the nodes without them are as planned."""
        remaining, found = self.space.nodes, list[Culprit]()
        while True:
            slow = yield from self._part(self._units(remaining, rail), rail)
            new = culprits_of(slow, self.space, remaining, rail)
            found += new
            remaining = tuple(node for node in remaining if node not in {each for culprit in new for each in _left_out(culprit)})
            if not new or len(remaining) < 2:
                return found
            yield (GroupTest(remaining, rail),)
            if not self._slow(remaining, rail):
                return found

    def _units(self, nodes: Item, rail: str | None) -> list[Item]:
        """Return the nodes by leaf."""
        leaves: dict[str, list[str]] = {}
        for node in nodes:
            leaves.setdefault(self.space.leaf(node, rail), []).append(node)
        return [tuple(members) for members in leaves.values()]

    def _part(self, units: list[Item], rail: str | None) -> Steps[Slow]:
        """Search each leaf that is slow alone; if none is, search between leaves."""
        if len(units) == 1:
            return (yield from self._halve(_alone(units[0]), rail))
        several = [unit for unit in units if len(unit) > 1]
        yield tuple(GroupTest(unit, rail) for unit in several)
        inside = [unit for unit in several if self._slow(unit, rail)]
        if inside:
            found = yield from _side_by_side(self._halve(_alone(unit), rail) for unit in inside)
            if sorted(_merged(found.undecided)) == sorted(
                _merged(several)
            ):  # No node to measure those beside that are alone on their leaf.
                found.undecided += [unit for unit in units if len(unit) == 1]
            return found
        found = Slow(paths=[(units[0], units[1])]) if len(units) == 2 and several else (yield from self._halve(units, rail))
        between = [path for path in found.paths if any(len(side) > 1 for side in path)]
        found.paths = [path for path in found.paths if path not in between]
        found.add((yield from _side_by_side(self._cross(_alone(one), _alone(other), rail) for one, other in between)))
        return found

    def _halve(self, items: list[Item], rail: str | None) -> Steps[Slow]:
        """Search items that are slow together."""
        if len(items) <= _TOURNAMENT:
            return (yield from self._pairs(items, rail))
        halves = _halves(items)
        yield tuple(GroupTest(_merged(half), rail) for half in halves)
        slow = [half for half in halves if self._slow(_merged(half), rail)]
        if not slow:
            return (yield from self._cross(*halves, rail))
        return (yield from _side_by_side(self._halve(half, rail) for half in slow))

    def _cross(self, one: list[Item], other: list[Item], rail: str | None) -> Steps[Slow]:
        """Search the slow paths between two groups that are as planned by themselves and slow together."""
        if len(one) == len(other) == 1:
            return Slow(paths=[(one[0], other[0])])
        quarters = _quarters(one, other)
        yield tuple(GroupTest(_merged(left + right), rail) for left, right in quarters)
        slow = [(left, right) for left, right in quarters if self._slow(_merged(left + right), rail)]
        if len(slow) == 4:  # Four slow pairs, one in each, would be a coincidence: all paths are slow.
            return Slow(paths=[(_merged(one), _merged(other))])
        return (yield from _side_by_side(self._cross(left, right, rail) for left, right in slow))

    def _pairs(self, items: list[Item], rail: str | None) -> Steps[Slow]:
        """Measure all pairs of a few items. An item that is slow with all others is a culprit, any other slow pair a path."""
        pairs = list(combinations(items, 2))
        yield tuple(GroupTest(_merged(pair), rail) for pair in pairs)
        slow = [pair for pair in pairs if self._slow(_merged(pair), rail)]
        always = [item for item in items if slow and all(pair in slow for pair in pairs if item in pair)]
        if len(always) == len(items):
            return (yield from self._beside_known_good(items, rail))
        return Slow(items=always, paths=[pair for pair in slow if not set(pair) & set(always)])

    def _beside_known_good(self, items: list[Item], rail: str | None) -> Steps[Slow]:
        """Measure items that are all slow with each other beside nodes that are known to be as planned, each beside another."""
        good = self._known_good(_merged(items), rail)
        if not good:
            return Slow(undecided=items)
        beside = {item: (*item, good[place % len(good)]) for place, item in enumerate(items)}
        yield tuple(GroupTest(group, rail) for group in beside.values())
        slow = [item for item, group in beside.items() if self._slow(group, rail)]
        rest = [item for item in items if item not in slow]
        if len(rest) == 2:
            return Slow(items=slow, paths=[(rest[0], rest[1])])
        return Slow(items=slow, cliques=[_merged(rest)] if len(rest) > 2 else [])

    def _known_good(self, without: Item, rail: str | None) -> list[str]:
        """Return nodes of groups that are as planned, those of other leaves first: a leaf may be slow between its own nodes only."""
        good = dict.fromkeys(node for test in self.figures if test.rail == rail and not self._slow(test.nodes, rail) for node in test.nodes)
        near = {self.space.leaf(node, rail) for node in without}
        return sorted((node for node in good if node not in without), key=lambda node: self.space.leaf(node, rail) in near)

    def _slow(self, nodes: Item, rail: str | None = None) -> bool:
        return self._state(self.figures[self._ordered(GroupTest(nodes, rail))]) is not FigureState.AS_PLANNED

    def _ordered(self, test: GroupTest) -> GroupTest:
        """Return the test with its nodes in the order of the plan, so that each group has one form."""
        return replace(test, nodes=tuple(sorted(test.nodes, key=self._place.__getitem__)))

    def _state(self, figure: Figure) -> FigureState:
        return state_of(figure, self._expected(figure.test))

    def _expected(self, test: GroupTest) -> float:
        return expected_of(test, self.space, self.expected or 0.0)

    def _do(self, tests: Iterable[GroupTest]) -> None:
        """Measure tests that were not measured yet, and doubtful ones a second time."""
        new = [test for test in dict.fromkeys(map(self._ordered, tests)) if test not in self.figures]
        self._run(new)
        self._repeat(new)

    def _repeat(self, tests: Sequence[GroupTest]) -> None:
        """Measure doubtful tests a second time; raise UndeterminedError if one could not be measured."""
        self._run([test for test in tests if self._doubtful(self.figures[test])])
        lost = next((self.figures[test] for test in tests if self.figures[test].value is None), None)
        if lost is not None:
            raise UndeterminedError(f"{', '.join(lost.test.nodes)} could not be measured: {lost.error or 'no reason given'}")

    def _doubtful(self, figure: Figure) -> bool:
        return figure.value is None or (self._state(figure) is FigureState.SLOW and figure.value >= CLEARLY * self._expected(figure.test))

    def _run(self, tests: Sequence[GroupTest]) -> None:
        """Measure tests in rounds: those that share no node run side by side."""
        waiting = list(tests)
        while waiting:
            taken = list[GroupTest]()
            for test in waiting:
                if not any(set(test.nodes) & set(other.nodes) for other in taken):
                    taken.append(test)
            waiting = [test for test in waiting if test not in taken]
            for figure in self._round(taken):
                self._keep(figure)

    def _round(self, tests: Sequence[GroupTest]) -> Sequence[Figure]:
        if len(self.rounds) >= self._limit:
            raise _LimitReachedError
        figures = tuple(self._measure(tests))
        self.rounds.append(figures)
        return figures

    def _keep(self, figure: Figure) -> None:
        """Keep the better of two measurements: load makes a group slower, never faster."""
        before = self.figures.get(figure.test)
        if before is None or (figure.value or 0.0) > (before.value or 0.0):
            self.figures[figure.test] = figure
        if before is not None and before.value is not None:
            self.recovered |= self._state(figure) is FigureState.AS_PLANNED

    def _confirmed(self, found: Sequence[Culprit]) -> list[Culprit]:
        """Measure the smallest slow group of each culprit again; return the culprits that are still slow."""
        smallest = {culprit: self._smallest(culprit) for culprit in found}
        self._run([test for test in dict.fromkeys(smallest.values()) if test is not None])
        return [culprit for culprit, test in smallest.items() if test is not None and self._slow(test.nodes, test.rail)]

    def _smallest(self, culprit: Culprit) -> GroupTest | None:
        """Return the smallest slow group that this culprit explains."""
        slow = [test for test in self.figures if culprit.explains(test) and self._slow(test.nodes, test.rail)]
        return min(slow, key=lambda test: len(test.nodes), default=None)

    def _better_again(self, test: GroupTest) -> bool:
        """Return whether a slow group is as planned in another measurement."""
        self._run([self._ordered(test)])
        return not self._slow(test.nodes, test.rail)


def _left_out(culprit: Culprit) -> Item:
    """Return the nodes without which the culprit has no effect: of a path, the smaller side."""
    return min(culprit.sides, key=len) if culprit.sides is not None else culprit.nodes


def _side_by_side(parts: Iterable[Steps[Slow]]) -> Steps[Slow]:
    """Search several parts at the same time; their tests share rounds."""
    found, running = Slow(), list(parts)
    while running:
        wanted, going = list[GroupTest](), list[Steps[Slow]]()
        for part in running:
            try:
                wanted += next(part)
                going.append(part)
            except StopIteration as end:
                found.add(end.value)
        running = going
        if wanted:
            yield tuple(wanted)
    return found


def _alone(nodes: Iterable[str]) -> list[Item]:
    return [(node,) for node in nodes]


def _halves(items: list[Item]) -> tuple[list[Item], list[Item]]:
    middle = (len(items) + 1) // 2
    return items[:middle], items[middle:]


def _quarters(one: list[Item], other: list[Item]) -> list[tuple[list[Item], list[Item]]]:
    """Return each half of one group with each half of the other; a single item with each quarter of the other group."""
    if len(other) == 1:
        one, other = other, one
    if len(one) == 1:
        return [(one, quarter) for half in _halves(other) for quarter in _halves(half) if quarter]
    return [(left, right) for left in _halves(one) for right in _halves(other)]


def _merged(items: Iterable[Item]) -> Item:
    return tuple(node for item in items for node in item)
