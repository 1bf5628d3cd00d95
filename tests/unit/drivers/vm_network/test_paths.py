"""Shortest paths, networks, trees and the choice among equal paths, as pure functions of the cables."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rackwright.drivers.vm.network.paths import Ends, choose, networks, next_hops, salt, spanning_tree

CLOS: dict[str, Ends] = {f"l{leaf}-s{spine}": (f"l{leaf}", f"s{spine}") for leaf in (1, 2, 3) for spine in (1, 2)}
FLOWS = [flow * 0x9E3779B97F4A7C15 % 2**64 for flow in range(1, 2001)]
graphs = some.dictionaries(
    some.integers(0, 40).map("c{}".format),
    some.tuples(*[some.integers(0, 9).map("n{}".format)] * 2).filter(lambda ends: ends[0] != ends[1]),
)


def test_leaf_reaches_leaf_over_each_spine() -> None:
    hops = next_hops(CLOS, "l2")
    assert hops["l1"] == ("l1-s1", "l1-s2") and hops["s1"] == ("l2-s1",) and "l2" not in hops


def test_spine_without_cable_to_target_is_no_way() -> None:
    """Both cables of a path must be up, not only the first."""
    without = {name: ends for name, ends in CLOS.items() if name != "l2-s1"}
    assert next_hops(without, "l2")["l1"] == ("l1-s2",)
    # The spine itself goes back down over the other leaves.
    assert next_hops(without, "l2")["s1"] == ("l1-s1", "l3-s1")


def test_parallel_cables_are_equal_ways() -> None:
    assert next_hops({"one": ("a", "b"), "two": ("b", "a")}, "a") == {"b": ("one", "two")}


def test_three_levels() -> None:
    cables = {
        "l1-s1": ("l1", "s1"),
        "l2-s2": ("l2", "s2"),
        "s1-c1": ("s1", "c1"),
        "s1-c2": ("s1", "c2"),
        "s2-c1": ("s2", "c1"),
        "s2-c2": ("s2", "c2"),
    }
    hops = next_hops(cables, "l2")
    assert (hops["l1"], hops["s1"], hops["c1"], hops["s2"]) == (("l1-s1",), ("s1-c1", "s1-c2"), ("s2-c1",), ("l2-s2",))


def test_switches_without_cable_are_networks_of_their_own() -> None:
    assert networks(["cluster", "l1", "l2", "s1"], {"l1-s1": ("l1", "s1")}) == {"cluster": "cluster", "l1": "l1", "s1": "l1", "l2": "l2"}


@given(graphs)
def test_tree_connects_each_network_without_loop(cables: dict[str, Ends]) -> None:
    switches = {end for ends in cables.values() for end in ends}
    joined = networks(switches, cables)
    tree = spanning_tree(cables)
    assert networks(switches, {name: cables[name] for name in tree}) == joined
    assert len(tree) == len(switches) - len(set(joined.values()))


@given(graphs)
def test_each_way_is_one_hop_nearer(cables: dict[str, Ends]) -> None:
    switches = {end for ends in cables.values() for end in ends}
    for target in switches:
        hops = next_hops(cables, target)
        joined = networks(switches, cables)
        assert {*hops, target} == {switch for switch in switches if joined[switch] == joined[target]}
        for begin in hops:
            at, steps = {begin}, 0
            while at != {target}:
                assert target not in at, "paths of different lengths"
                at = {next(end for end in cables[name] if end != switch) for switch in at for name in hops[switch]}
                steps += 1
                assert steps <= len(switches)


@pytest.mark.parametrize("ways", [2, 3, 4, 8])
def test_flows_spread_evenly(ways: int) -> None:
    salts = [salt(f"l1-s{number}", "l1") for number in range(ways)]
    found = Counter(choose(flow, salts) for flow in FLOWS)
    assert min(found.values()) > 0.75 * len(FLOWS) / ways and max(found.values()) < 1.25 * len(FLOWS) / ways


def test_consecutive_flows_spread_evenly() -> None:
    """Source ports of RoCEv2 follow one another; the choice must not depend on a good hash alone."""
    found = Counter(choose(flow, [salt("a", "l1"), salt("b", "l1")]) for flow in range(2000))
    assert 750 < found[0] < 1250


def test_choices_of_two_levels_are_independent() -> None:
    """A second level whose choice follows the first one's would use half of its cables."""
    first, second = ([salt(f"{level}-{number}", level) for number in (1, 2)] for level in ("l1", "s1"))
    pairs = Counter((choose(flow, first), choose(flow, second)) for flow in FLOWS)
    assert len(pairs) == 4 and min(pairs.values()) > 0.8 * len(FLOWS) / 4


def test_flow_keeps_its_cable_when_another_goes() -> None:
    names = ["s1", "s2", "s3"]
    before = {flow: names[choose(flow, [salt(name, "l1") for name in names])] for flow in FLOWS}
    after = {flow: names[choose(flow, [salt(name, "l1") for name in names[:2]])] for flow in FLOWS}
    assert {flow for flow in FLOWS if before[flow] != after[flow]} == {flow for flow in FLOWS if before[flow] == "s3"}
