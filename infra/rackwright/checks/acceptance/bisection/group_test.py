"""The terms of the search: a group of nodes that runs a collective, its figure, and the culprits that explain slow groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LEAST: Final = 0.8
"""Share of the expected figure from which a group is as planned. Chosen, so that a tenth lost to other load is no culprit."""
CLEARLY: Final = 0.5
"""Share below which a group is slow without a second measurement. Chosen: a link that trains at half its speed, or is lost, is below."""


class FigureState(StrEnum):
    """State of a measured group."""

    AS_PLANNED = "as-planned"
    SLOW = "slow"
    FAILED = "failed"
    NOT_MEASURED = "not-measured"


class CulpritKind(StrEnum):
    """Kind of a culprit."""

    NODE = "node"
    """Every group with this node is slow."""
    PAIR = "pair"
    """Groups with both are slow, groups with one of them are not: a path between them."""
    LEAF = "leaf"
    """All pairs of this leaf, within it or to other leaves; two names: the paths between these two."""
    RAIL = "rail"
    """All nodes, on this rail only."""
    FABRIC = "fabric"
    """Every group is slow, on every rail."""


class Outcome(StrEnum):
    """Outcome of a search."""

    AS_PLANNED = "as-planned"
    FOUND = "found"
    NOT_REPRODUCED = "not-reproduced"
    """A group was slow, and as planned in its second measurement."""
    ONLY_TOGETHER = "only-together"
    """All nodes together are slow, and no smaller group is."""
    UNDETERMINED = "undetermined"


@dataclass(frozen=True, slots=True)
class GroupTest:
    """A collective on a group of nodes. Every pair of its nodes exchanges data."""

    nodes: tuple[str, ...]
    rail: str | None = None
    """The only rail that carries its data; None for all rails."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The result of a group test."""

    test: GroupTest
    value: float | None
    """Data that each node sends per second; 0 for a collective that failed; None if the group could not be measured."""
    error: str = ""
    job: str = ""


MeasureRound = Callable[[Sequence[GroupTest]], Sequence[Figure]]
"""Run the tests of one round side by side: no node is in two of them."""


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The nodes that can be measured, and where the plan's fabric connects them."""

    nodes: tuple[str, ...]
    rails: tuple[str, ...] = ()
    """Rails that can be measured one by one; none if the nodes have a single network."""
    leaves: Mapping[str | None, Mapping[str, str]] | None = None
    """Leaf of each node, by rail; under None the leaf, or the group of leaves, of all its rails."""

    def leaf(self, node: str, rail: str | None) -> str:
        """Return the leaf of a node on a rail; empty if the plan has no fabric."""
        return (self.leaves or {}).get(rail, {}).get(node, "")


@dataclass(frozen=True, slots=True)
class Culprit:
    """What makes groups slow."""

    kind: CulpritKind
    names: tuple[str, ...]
    """Nodes, leaves or the rail."""
    nodes: tuple[str, ...]
    """Nodes that it affects."""
    rail: str | None = None
    sides: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    """Both ends of a path: it is slow between them only."""
    undecided: bool = False
    """Whether no node that is known to be as planned was left to measure these against: not all of the names may be culprits."""

    def explains(self, test: GroupTest) -> bool:
        """Return whether this culprit makes a group slow."""
        if self.rail is not None and test.rail not in (None, self.rail):
            return False
        members = set(test.nodes)
        if self.sides is not None:
            return all(members & set(side) for side in self.sides)
        return bool(members & set(self.nodes))


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found, and every measurement that it made."""

    outcome: Outcome
    culprits: tuple[Culprit, ...]
    expected: float
    """Figure of a group that is as planned, over all rails."""
    rounds: tuple[tuple[Figure, ...], ...]
    reason: str = ""

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Return the figures of all rounds."""
        return tuple(figure for figures in self.rounds for figure in figures)


def expected_of(test: GroupTest, space: SearchSpace, expected: float) -> float:
    """Return the expected figure of a group: one of several rails carries its share."""
    return expected / (len(space.rails) if test.rail is not None else 1)


def state_of(figure: Figure, expected: float) -> FigureState:
    """Return whether a figure is as planned.

    >>> state_of(Figure(GroupTest(("a", "b")), 9.0), 10.0)
    <FigureState.AS_PLANNED: 'as-planned'>
    """
    if figure.value is None:
        return FigureState.NOT_MEASURED
    if figure.value <= 0:
        return FigureState.FAILED
    return FigureState.AS_PLANNED if figure.value >= LEAST * expected else FigureState.SLOW
