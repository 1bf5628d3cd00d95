"""A simulated fabric for the search: which groups are slow, and a figure with noise for each."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rackwright.checks.acceptance.bisection.group_test import Figure, GroupTest, SearchSpace

EXPECTED = 40.0
Fault = Callable[[GroupTest], bool]
"""Whether a group is slow."""


def nodes_of(count: int) -> tuple[str, ...]:
    """Return names of nodes."""
    return tuple(f"worker{number}" for number in range(count))


def rail_fabric(count: int, size: int, rails: int) -> SearchSpace:
    """Return nodes with a leaf for each rail and each `size` nodes."""
    nodes, names = nodes_of(count), tuple(f"mlx5_{number}" for number in range(rails))
    units = {node: place // size for place, node in enumerate(nodes)}
    leaves: dict[str | None, dict[str, str]] = {rail: {node: f"leaf-su{unit}-{rail}" for node, unit in units.items()} for rail in names}
    leaves[None] = {node: f"leaf-su{unit}" for node, unit in units.items()}
    return SearchSpace(nodes, names, leaves)


def node(name: str, rail: str | None = None) -> Fault:
    """Return a node that makes each of its groups slow."""
    return lambda test: name in test.nodes and _carries(test, rail)


def pair(one: str, other: str, rail: str | None = None) -> Fault:
    """Return a path that makes groups with both of its ends slow."""
    return lambda test: {one, other} <= set(test.nodes) and _carries(test, rail)


def leaf(space: SearchSpace, name: str, rail: str | None) -> Fault:
    """Return a leaf that makes each group with one of its nodes slow."""
    return lambda test: any(space.leaf(each, rail) == name for each in test.nodes) and _carries(test, rail)


def uplinks(space: SearchSpace, name: str, rail: str | None) -> Fault:
    """Return the links of a leaf to the spines: groups of its nodes with others are slow."""
    return lambda test: {space.leaf(each, rail) == name for each in test.nodes} == {True, False} and _carries(test, rail)


def inside(space: SearchSpace, name: str, rail: str | None) -> Fault:
    """Return a leaf that is slow between its own nodes only."""
    return lambda test: sum(space.leaf(each, rail) == name for each in test.nodes) > 1 and _carries(test, rail)


def rail_of_all(rail: str) -> Fault:
    """Return a rail that makes each group slow."""
    return lambda test: _carries(test, rail)


def _carries(test: GroupTest, rail: str | None) -> bool:
    return rail is None or test.rail in (None, rail)


@dataclass
class SimulatedCluster:
    """Measures groups: 85 % to 100 % of the expected figure, a fifth of it if a fault applies."""

    space: SearchSpace
    faults: Sequence[Fault] = ()
    noise: random.Random = field(default_factory=lambda: random.Random(1))
    disturbed: float = 0.0
    """Share of healthy measurements that other load brings to 60 % to 79 %, which a second measurement corrects."""
    measured: list[GroupTest] = field(default_factory=list)
    _disturbed: set[GroupTest] = field(default_factory=set)

    def __call__(self, tests: Sequence[GroupTest]) -> list[Figure]:
        """Measure a round; no node may be in two of its groups, and no group may have one node."""
        members = [each for test in tests for each in test.nodes]
        assert len(members) == len(set(members)) and all(len(test.nodes) > 1 for test in tests), tests
        self.measured += tests
        return [Figure(test, self._value(test)) for test in tests]

    def _value(self, test: GroupTest) -> float:
        whole = EXPECTED / (len(self.space.rails) if test.rail is not None else 1)
        if any(fault(test) for fault in self.faults):
            return whole * 0.2
        if test not in self._disturbed and self.noise.random() < self.disturbed:
            self._disturbed.add(test)
            return whole * self.noise.uniform(0.6, 0.79)
        return whole * self.noise.uniform(0.85, 1)
