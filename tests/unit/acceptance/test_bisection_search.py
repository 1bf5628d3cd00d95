"""The search on simulated fabrics: each kind of culprit is found, within a bounded number of rounds, whatever the noise."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rows import each_row

from rackwright.checks.acceptance.bisection.group_test import Culprit, CulpritKind, Figure, GroupTest, Outcome, SearchResult, SearchSpace
from rackwright.checks.acceptance.bisection.search import round_limit, search

from .simulated_groups import EXPECTED, Fault, SimulatedCluster, inside, leaf, node, nodes_of, pair, rail_fabric, rail_of_all, uplinks

SEEDS = st.integers(min_value=0, max_value=2**32)
COUNTS = st.integers(min_value=3, max_value=256)


def found(result: SearchResult) -> list[tuple[str, tuple[str, ...], str | None]]:
    """Return the culprits as kind, names and rail."""
    return [(culprit.kind.value, culprit.names, culprit.rail) for culprit in result.culprits]


def searched(space: SearchSpace, *faults: Fault, disturbed: float = 0.0, seed: int = 1) -> SearchResult:
    """Return the result of a search."""
    return search(space, SimulatedCluster(space, faults, random.Random(seed), disturbed), EXPECTED)


@settings(deadline=None, max_examples=60)
@given(count=COUNTS, seed=SEEDS)
def test_search_finds_slow_node(count: int, seed: int) -> None:
    name = random.Random(seed).choice(nodes_of(count))
    result = searched(SearchSpace(nodes_of(count)), node(name), seed=seed)
    assert (result.outcome, found(result)) == (Outcome.FOUND, [("node", (name,), None)])
    assert len(result.rounds) <= round_limit(count)


@settings(deadline=None, max_examples=60)
@given(count=COUNTS, seed=SEEDS)
def test_search_finds_slow_pair(count: int, seed: int) -> None:
    one, other = sorted(random.Random(seed).sample(range(count), 2))
    names = (f"worker{one}", f"worker{other}")
    result = searched(SearchSpace(nodes_of(count)), pair(*names), seed=seed)
    assert (result.outcome, found(result)) == (Outcome.FOUND, [("pair", names, None)])
    assert len(result.rounds) <= round_limit(count)


@settings(deadline=None, max_examples=60)
@given(count=st.integers(min_value=8, max_value=256), seed=SEEDS)
def test_search_finds_slow_node_under_load(count: int, seed: int) -> None:
    """A tenth of the healthy groups are below the limit in their first measurement."""
    name = random.Random(seed).choice(nodes_of(count))
    result = searched(SearchSpace(nodes_of(count)), node(name), disturbed=0.1, seed=seed)
    assert found(result) == [("node", (name,), None)]


@settings(deadline=None, max_examples=60)
@given(count=st.integers(min_value=12, max_value=256), culprits=st.integers(min_value=2, max_value=4), seed=SEEDS)
def test_search_finds_several_slow_nodes(count: int, culprits: int, seed: int) -> None:
    names = random.Random(seed).sample(nodes_of(count), culprits)
    result = searched(SearchSpace(nodes_of(count)), *map(node, names), seed=seed)
    assert {name for culprit in result.culprits for name in culprit.names} == set(names)
    assert {culprit.kind.value for culprit in result.culprits} == {"node"}


@settings(deadline=None, max_examples=40)
@given(count=st.integers(min_value=8, max_value=128), seed=SEEDS)
def test_search_finds_node_and_pair_elsewhere(count: int, seed: int) -> None:
    name, one, other = random.Random(seed).sample(nodes_of(count), 3)
    result = searched(SearchSpace(nodes_of(count)), node(name), pair(one, other), seed=seed)
    assert {(culprit.kind.value, frozenset(culprit.names)) for culprit in result.culprits} == {
        ("node", frozenset({name})),
        ("pair", frozenset({one, other})),
    }


@settings(deadline=None, max_examples=40)
@given(
    size=st.integers(min_value=2, max_value=32),
    units=st.integers(min_value=3, max_value=8),
    rails=st.sampled_from((2, 4, 8)),
    kind=st.sampled_from(("node", "leaf", "uplinks", "inside", "rail")),
    seed=SEEDS,
)
def test_search_finds_culprit_on_one_rail(size: int, units: int, rails: int, kind: str, seed: int) -> None:
    space, chance = rail_fabric(size * units, size, rails), random.Random(seed)
    rail, name = chance.choice(space.rails), chance.choice(space.nodes)
    switch = space.leaf(name, rail)
    fault, expected = {
        "node": (node(name, rail), ("node", (name,))),
        "leaf": (leaf(space, switch, rail), ("leaf", (switch,))),
        "uplinks": (uplinks(space, switch, rail), ("leaf", (switch,))),
        "inside": (inside(space, switch, rail), ("leaf", (switch,))),
        "rail": (rail_of_all(rail), ("rail", (rail,))),
    }[kind]
    result = searched(space, fault, seed=seed)
    if kind == "inside" and size == 2:
        assert result.culprits[0].kind == "pair"  # Of two nodes the leaf and the path between them are the same.
        return
    assert found(result) == [(*expected, rail)]
    assert len(result.rounds) <= round_limit(len(space.nodes), rails)


def test_search_finds_leaf_on_all_rails() -> None:
    space = rail_fabric(16, 4, 2)
    assert found(searched(space, leaf(space, "leaf-su2", None))) == [("leaf", ("leaf-su2",), None)]


def test_paths_between_two_leaves_are_one_culprit() -> None:
    space = rail_fabric(16, 4, 2)
    one, other = (set(space.nodes[:4]), set(space.nodes[8:12]))
    result = searched(space, lambda test: bool(one & set(test.nodes) and other & set(test.nodes)))
    assert found(result) == [("leaf", ("leaf-su0", "leaf-su2"), None)]


def test_pair_in_different_leaves_is_found() -> None:
    space = rail_fabric(16, 4, 2)
    result = searched(space, pair("worker1", "worker14", "mlx5_1"))
    assert found(result) == [("pair", ("worker1", "worker14"), "mlx5_1")]


def test_node_alone_on_second_leaf_is_named() -> None:
    space = rail_fabric(9, 8, 1)
    assert found(searched(space, node("worker8"))) == [("node", ("worker8",), None)]


def test_rail_with_node_alone_on_its_leaf_is_named() -> None:
    assert found(searched(rail_fabric(33, 8, 2), rail_of_all("mlx5_1"))) == [("rail", ("mlx5_1",), "mlx5_1")]


def test_healthy_cluster_needs_one_round() -> None:
    result = searched(SearchSpace(nodes_of(256)))
    assert (result.outcome, result.culprits, len(result.rounds)) == (Outcome.AS_PLANNED, (), 1)


def test_fabric_that_is_slow_everywhere_is_one_culprit() -> None:
    (culprit,) = searched(SearchSpace(nodes_of(16)), lambda _: True).culprits
    assert (culprit.kind.value, culprit.undecided) == ("fabric", True)


def test_two_nodes_are_undecided() -> None:
    (culprit,) = searched(SearchSpace(nodes_of(2)), node("worker1")).culprits
    assert (culprit.kind.value, culprit.names, culprit.undecided) == ("pair", nodes_of(2), True)


def test_leaves_that_are_all_slow_between_each_other_are_undecided() -> None:
    space = rail_fabric(12, 4, 1)
    (culprit,) = searched(space, lambda test: len({space.leaf(each, None) for each in test.nodes}) > 1).culprits
    assert (culprit.kind.value, culprit.names, culprit.undecided) == ("leaf", ("leaf-su0", "leaf-su1", "leaf-su2"), True)


def test_slow_only_together_names_nobody() -> None:
    result = searched(SearchSpace(nodes_of(16)), lambda test: len(test.nodes) > 8 and len(test.nodes) % 2 == 0)
    assert (result.outcome, result.culprits) == (Outcome.ONLY_TOGETHER, ())


class PlayedFigures:
    """Figures in the order in which they are measured; the last one repeats."""

    def __init__(self, *values: float | None) -> None:
        self.values = list(values)

    def __call__(self, tests: Sequence[GroupTest]) -> list[Figure]:
        return [Figure(test, self.values.pop(0) if len(self.values) > 1 else self.values[0], "its job did not start") for test in tests]


@each_row(
    "values, outcome, rounds",
    [
        ((0.7, 0.95), Outcome.NOT_REPRODUCED, 2),
        ((0.9, 0.7), Outcome.AS_PLANNED, 1),
        ((0.1, 0.95), Outcome.NOT_REPRODUCED, 5),
        ((0.0, 0.95), Outcome.NOT_REPRODUCED, 5),
        ((None, 0.95), Outcome.AS_PLANNED, 2),
        ((0.7, None, 0.95), Outcome.NOT_REPRODUCED, 6),
        ((None,), Outcome.UNDETERMINED, 2),
    ],
)
def test_second_measurement_decides(values: tuple[float | None, ...], outcome: Outcome, rounds: int) -> None:
    played = PlayedFigures(*(None if value is None else value * EXPECTED for value in values))
    result = search(SearchSpace(nodes_of(8)), played, EXPECTED)
    assert (result.outcome, result.culprits) == (outcome, ())
    assert len(result.rounds) == rounds


def test_slow_node_that_recovers_is_not_reported() -> None:
    cluster = SimulatedCluster(SearchSpace(nodes_of(8)), [node("worker3")])

    def measure(tests: Sequence[GroupTest]) -> list[Figure]:
        if len(cluster.measured) > 8:
            cluster.faults = ()
        return cluster(tests)

    result = search(cluster.space, measure, EXPECTED)
    assert (result.outcome, result.culprits) == (Outcome.NOT_REPRODUCED, ())


def test_part_that_recovers_is_not_reproduced_though_all_stay_slow() -> None:
    cluster = SimulatedCluster(SearchSpace(nodes_of(8)), [lambda test: len(test.nodes) == 8, node("worker3")])

    def measure(tests: Sequence[GroupTest]) -> list[Figure]:
        if len(cluster.measured) > 8:
            cluster.faults = cluster.faults[:1]
        return cluster(tests)

    assert search(cluster.space, measure, EXPECTED).outcome is Outcome.NOT_REPRODUCED


def test_pair_alone_on_its_leaf_is_found() -> None:
    assert found(searched(rail_fabric(6, 2, 1), pair("worker2", "worker3"))) == [("pair", ("worker2", "worker3"), None)]


def test_two_pairs_between_halves_are_not_widened() -> None:
    result = searched(SearchSpace(nodes_of(16)), pair("worker0", "worker8"), pair("worker1", "worker12"))
    assert found(result) == [("pair", ("worker0", "worker8"), None), ("pair", ("worker1", "worker12"), None)]


def test_pairs_with_common_node_are_both_found() -> None:
    """The search leaves out one end of the first pair only."""
    result = searched(SearchSpace(nodes_of(16)), pair("worker1", "worker3"), pair("worker3", "worker12"))
    assert found(result) == [("pair", ("worker1", "worker3"), None), ("pair", ("worker3", "worker12"), None)]


def test_doubtful_pair_of_reference_is_measured_again() -> None:
    cluster = SimulatedCluster(SearchSpace(nodes_of(10)))

    def measure(tests: Sequence[GroupTest]) -> list[Figure]:
        first = not cluster.measured
        return [Figure(each.test, 0.7 * EXPECTED) if first and "worker0" in each.test.nodes else each for each in cluster(tests)]

    result = search(cluster.space, measure)
    assert [figure.test.nodes for figure in result.rounds[1]] == [("worker0", "worker1")]
    assert result.outcome is Outcome.NOT_REPRODUCED


def test_search_reports_node_that_was_lost() -> None:
    result = search(SearchSpace(nodes_of(4)), PlayedFigures(None), EXPECTED)
    assert result.reason == "worker0, worker1, worker2, worker3 could not be measured: its job did not start"


def test_search_without_figure_measures_pairs_first() -> None:
    space = SearchSpace(nodes_of(9))
    result = search(space, SimulatedCluster(space, [node("worker4")]))
    assert 0.85 * EXPECTED <= result.expected <= EXPECTED
    assert [figure.test.nodes for figure in result.rounds[0]] == [(f"worker{one}", f"worker{one + 1}") for one in range(0, 8, 2)]
    assert found(result) == [("node", ("worker4",), None)]


def test_search_without_figure_needs_one_healthy_pair() -> None:
    result = search(SearchSpace(nodes_of(4)), PlayedFigures(0.0))
    assert (result.outcome, len(result.rounds)) == (Outcome.UNDETERMINED, 1)


@pytest.mark.parametrize("count", [0, 1])
def test_search_needs_two_nodes(count: int) -> None:
    result = searched(SearchSpace(nodes_of(count)))
    assert (result.outcome, result.rounds) == (Outcome.UNDETERMINED, ())


def test_search_ends_at_its_limit() -> None:
    space = SearchSpace(nodes_of(64))
    result = search(space, SimulatedCluster(space, [node("worker3")]), EXPECTED, limit=4)
    assert (result.outcome, len(result.rounds), result.reason) == (Outcome.UNDETERMINED, 4, "no result after 4 rounds")


@each_row(
    "nodes, rail, sides, group, on, explained",
    [
        (("a",), None, None, ("a", "b"), None, True),
        (("a",), None, None, ("b", "c"), None, False),
        (("a",), "r1", None, ("a", "b"), None, True),
        (("a",), "r1", None, ("a", "b"), "r1", True),
        (("a",), "r1", None, ("a", "b"), "r2", False),
        (("a", "b"), None, (("a",), ("b",)), ("a", "b", "c"), None, True),
        (("a", "b"), None, (("a",), ("b",)), ("a", "c"), None, False),
    ],
)
def test_culprit_explains_its_groups(nodes, rail, sides, group, on, explained):
    assert Culprit(CulpritKind.NODE, nodes, nodes, rail, sides).explains(GroupTest(group, on)) is explained


def test_groups_are_in_order_of_plan() -> None:
    result = searched(SearchSpace(nodes_of(12)), node("worker11"))
    places = [[int(name.removeprefix("worker")) for name in figure.test.nodes] for figure in result.figures]
    assert places == [sorted(group) for group in places]
