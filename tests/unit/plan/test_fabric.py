"""The fabric's wiring: what must hold for every fabric that can be declared, and the counts of fabrics that others have published."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rackwright.derive.fabric_layout import compute_layout
from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.model.fabric.switches import FabricTopology
from rackwright.plan import Plan, expand
from rackwright.plan.fabric import Level, Wiring, wire_placements, wiring
from rackwright.plan.fabric.expand import expand_fabric
from rackwright.plan.fabric.growth import at_size, bisection_gbps, growth_headroom, steps
from rackwright.plan.fabric.management import management
from rackwright.plan.fabric.physical import positions
from rackwright.plan.fabric.schema import FabricPlan
from rackwright.plan.fabric.wiring import occupied_units, splitter_of
from rackwright.stackfile.load import load_cluster, load_stack

calm = settings(derandomize=True)
MACHINE = {"host_key": "SHA256:" + "A" * 43}


def described(workers: int, first: tuple[int, int] | None = None, **fabric: Any) -> Any:
    """Machines with eight GPUs each, and a fabric; `first`: count and capacity of another group, whose places come first."""
    gpus = {"gpus": {"model": "h100", "count": 8}}
    groups = {"first": {"count": first[0], "reserved_addresses": first[1], "roles": ["worker"], **gpus}} if first else {}
    groups["worker"] = {"count": workers, "reserved_addresses": 4096, **gpus}
    machines = {f"{name}[0-{group['count'] - 1}]": {"address": "10.30.1.1"} for name, group in groups.items() if group["count"]}
    loaded = load_cluster(
        {
            "target": {"kind": "hosts", "os": "debian-13", "machines": machines | {"login0": {"address": "10.30.0.9", **MACHINE}}},
            "network": {"cidr": "10.30.0.0/16"},
            "groups": {"login": {"count": 1, "roles": ["login", "controller"]}, **groups},
            "fabric": fabric,
        }
    )
    assert loaded.cluster is not None, loaded.findings
    return loaded.cluster


def plan(workers: int, first: tuple[int, int] | None = None, **fabric: Any) -> Plan:
    """The same as a plan."""
    return expand(described(workers, first, **fabric), "rack")


def rack(name: str = "rack-h100") -> Plan:
    """A committed stack."""
    cluster = load_stack(paths.stack_file(name)).cluster
    assert cluster is not None
    return expand(cluster, name)


def fabric_of(plan: Plan) -> FabricPlan:
    assert plan.fabric is not None
    return plan.fabric


@st.composite
def fabrics(draw: st.DrawFn) -> tuple[Plan, int]:
    """A plan with a fabric that two or three levels of its switch can carry, of one group or two, and a number of nodes to grow to."""
    topology = draw(st.sampled_from(FabricTopology))
    rails = draw(st.integers(1, 8))
    said: dict[str, Any] = {
        "switch": draw(st.sampled_from(["qm9700", "qm8700"])),
        "rate": draw(st.sampled_from(["whole", "split"])),
        "topology": topology.value,
        "rails": rails,
        "max_nodes": draw(st.integers(1, 300)),
        "oversubscription": draw(st.integers(1, 4)),
        **({"subnet_manager": "login0"} if draw(st.booleans()) else {}),
    }
    ports, half = {"qm9700": (64, "NDR200"), "qm8700": (40, "HDR100")}[said["switch"]]
    split = {"whole": 1, "split": 2}[said["rate"]]
    said["rate"] = {"whole": None, "split": half}[said["rate"]]
    sizes = {"nodes": said["max_nodes"], "oversubscription": said["oversubscription"], "topology": topology}
    assume(compute_layout(ports=ports, rails=rails, spare=int("subnet_manager" in said), split=split, **sizes) is not None)
    room = draw(st.integers(0, said["max_nodes"] - 1))
    first = draw(st.integers(0, room))
    here = draw(st.integers(0 if first else 1, said["max_nodes"] - room))
    return plan(here, (first, room) if room else None, **said), draw(st.integers(first + here, said["max_nodes"]))


def ports_of(laid: Wiring) -> Counter[tuple[str, int]]:
    """Every end of every cable."""
    ends = ((cable.device, cable.port) for cable in laid.cables)
    return Counter(itertools.chain(ends, ((cable.switch, cable.switch_port) for cable in laid.cables)))


@calm
@given(fabrics())
def test_no_port_is_used_twice_and_none_that_a_switch_does_not_have(drawn: tuple[Plan, int]) -> None:
    made, nodes = drawn
    laid = at_size(made, nodes)
    used = ports_of(laid)
    assert max(used.values()) == 1
    switches = {switch.name for switch in laid.switches}
    assert {cable.switch for cable in laid.cables} <= switches
    fabric, spines = fabric_of(made), {switch.name for switch in laid.of(Level.SPINE)}
    assert all(1 <= port <= fabric.ports * (1 if device in spines else fabric.split) for device, port in used if device in switches)


@calm
@given(fabrics())
def test_whole_ports_share_nothing_with_split_ones(drawn: tuple[Plan, int]) -> None:
    """A leaf's uplink has the number of the first half of its port, and its second half is not used."""
    made, nodes = drawn
    fabric, laid = fabric_of(made), at_size(made, nodes)
    halves: dict[tuple[str, int], list[bool]] = {}
    for cable in laid.cables:
        leaf, port = (cable.switch, cable.switch_port) if "/" in cable.device else (cable.device, cable.port)
        halves.setdefault((leaf, (port - 1) // fabric.split), []).append("/" in cable.device)
        assert "/" in cable.device or (port - 1) % fabric.split == 0
    assert all(len(ends) <= fabric.split and (all(ends) or len(ends) == 1) for ends in halves.values())
    assert all(port < fabric.ports for _, port in halves)


@calm
@given(fabrics())
def test_every_node_has_every_rail_once(drawn: tuple[Plan, int]) -> None:
    made, nodes = drawn
    fabric, laid = fabric_of(made), at_size(made, nodes)
    plugged = Counter((cable.device.split("/")[0], cable.rail) for cable in laid.cables if cable.rail is not None)
    assert plugged == Counter((placement.node, rail) for placement in laid.placements for rail in range(fabric.rails))
    assert all(made.node(placement.node).rails == fabric.hcas for placement in wiring(made).placements)


@calm
@given(fabrics())
def test_same_rails_of_a_scalable_unit_are_one_leaf_apart(drawn: tuple[Plan, int]) -> None:
    """And in a fat tree, all HCAs of a node."""
    made, nodes = drawn
    fabric, laid = fabric_of(made), at_size(made, nodes)
    units = {placement.node: placement.place // fabric.per_unit for placement in laid.placements}
    apart: dict[Any, set[str]] = {}
    for cable in laid.cables:
        if cable.rail is not None:
            unit = units[cable.device.split("/")[0]]
            apart.setdefault((unit, cable.rail if fabric.leaves_per_unit > 1 else 0), set()).add(cable.switch)
    assert all(len(leaves) == 1 for leaves in apart.values())
    assert len({leaf for leaves in apart.values() for leaf in leaves}) == len(apart), "no two share a leaf that need not"


def between(laid: Wiring) -> dict[str, Counter[str]]:
    """Leaf -> spine -> cables, counted from the list."""
    found = {leaf.name: Counter[str]() for leaf in laid.of(Level.LEAF)}
    for cable in laid.cables:
        if cable.device in found:
            found[cable.device][cable.switch] += 1
    return found


@calm
@given(fabrics(), st.randoms(use_true_random=False))
def test_the_bisection_is_what_passes_between_the_weakest_halves(drawn: tuple[Plan, int], chance: Any) -> None:
    """However units are halved, each leaf sends what its HCAs have and its cables up carry; less passes nowhere, and so much somewhere."""
    made, nodes = drawn
    fabric, laid = fabric_of(made), at_size(made, nodes)
    said = bisection_gbps(fabric, laid)
    units = occupied_units(fabric, laid.placements)
    if said is None:
        assert len(units) == 1
        return
    sends, size = sent(fabric, laid), len(units) // 2
    halves = [chance.sample(units, size) for _ in range(9)] if len(units) > 8 else list(itertools.combinations(units, size))
    weakest = sorted(units, key=lambda unit: sends[unit])[:size]
    passes = [min(total(sends, half), total(sends, set(units) - set(half))) for half in (*halves, weakest)]
    assert said == min(passes) * fabric.rate_gbps
    hcas = fabric.rails * total(Counter(placement.place // fabric.per_unit for placement in laid.placements), weakest)
    assert said * fabric.oversubscription >= hcas * fabric.rate_gbps


def total(numbers: Counter[int], units: Iterable[int]) -> int:
    return sum(numbers[unit] for unit in units)


def sent(fabric: FabricPlan, laid: Wiring) -> Counter[int]:
    """Scalable unit -> links' worth that it sends out at once, counted from the cable list."""
    down = Counter(cable.switch for cable in laid.cables if cable.rail is not None)
    up = {name: cables.total() for name, cables in between(laid).items()}
    found = Counter[int]()
    for leaf in laid.of(Level.LEAF):
        found[leaf.number // fabric.leaves_per_unit] += min(down[leaf.name], up[leaf.name] * fabric.split)
    return found


def test_a_unit_that_is_nearly_empty_sends_little() -> None:
    """Whatever cables its leaves have up: one node of eight rails."""
    assert bisection_gbps(fabric_of(rack()), wiring(rack())) == 102_400
    made = plan(33, max_nodes=256)
    assert bisection_gbps(fabric_of(made), wiring(made)) == 8 * 400


@calm
@given(fabrics())
def test_every_leaf_goes_to_every_spine_alike_and_no_worse_than_declared(drawn: tuple[Plan, int]) -> None:
    """Traffic between two leaves finds the lesser of both at each spine: unequal leaves would lose what they have more."""
    made, nodes = drawn
    fabric, laid = fabric_of(made), at_size(made, nodes)
    spines = laid.of(Level.SPINE)
    found = between(laid)
    for leaf in laid.of(Level.LEAF):
        pod = fabric.pod_of(leaf.number // fabric.leaves_per_unit)
        mine = [spine for spine in spines if spine.number // fabric.spines == pod]
        assert found[leaf.name] == Counter({spine.name: fabric.links for spine in mine})
    assert not spines or fabric.downlinks <= fabric.uplinks * fabric.split * fabric.oversubscription
    assert len(spines) != 1, "losing one must disconnect no node"


@calm
@given(fabrics())
def test_growth_moves_no_cable(drawn: tuple[Plan, int]) -> None:
    """Nor any switch that stands, nor a cable that manages."""
    made, nodes = drawn
    before, after = wiring(made), at_size(made, nodes)
    assert set(before.cables) <= set(after.cables)
    assert set(before.switches) <= set(after.switches)
    assert all(not step.moved for step in steps(made))


def test_a_rack_grows_from_64_to_256_nodes_by_adding_alone() -> None:
    """In both planes, and with the same lengths."""
    made = rack()
    before, after = wiring(made), at_size(made, 256)
    assert len(set(after.cables) - set(before.cables)) == 3072 and set(before.cables) <= set(after.cables)
    old, new = management(made, before), management(made, after)
    assert set(old.cables) < set(new.cables)
    assert Counter(cable.switch for cable in new.cables).most_common(1)[0][1] <= 48
    assert max(ports_of(Wiring((), (), new.cables)).values()) == 1
    assert [(step.nodes, step.switches, step.cables) for step in steps(made)] == [(64, 48, 1024), (128, 64, 2048), (256, 96, 4096)]


def test_room_for_growth_has_its_price() -> None:
    """24 switches for 64 nodes alone; 48 where 256 are to come, since leaves to come meet only spines that are there."""
    space = growth_headroom(rack())
    assert space is not None
    assert (space.switches, space.alone, space.moved) == (48, 24, 511)
    assert growth_headroom(plan(64, max_nodes=64)) is None
    split = growth_headroom(plan(64, max_nodes=256, rate="NDR200"))
    assert split is not None and split.alone == len(wiring(plan(64, max_nodes=64, rate="NDR200")).switches) == 12


@pytest.mark.parametrize("nodes", [64, 128])
def test_what_is_laid_out_for_fewer_would_move_cables(nodes: int) -> None:
    """So that the small layout is not mistaken for the beginning of the large one."""
    small, large = fabric_of(plan(64, max_nodes=nodes)), fabric_of(plan(64, max_nodes=256))
    assert small.spines < large.spines
    assert not set(wiring(plan(64, max_nodes=nodes)).cables) <= set(wiring(plan(256, max_nodes=256)).cables)


@pytest.mark.parametrize(
    ("nodes", "rails", "leaves", "spines"),
    [
        # NVIDIA DGX SuperPOD reference architecture, B200, component counts of 2, 4 and 8 scalable units of 32 nodes (read 2026-11-22).
        (64, 8, 16, 8),
        (128, 8, 32, 16),
        (256, 8, 64, 32),
    ],
)
def test_counts_are_those_of_the_reference_architecture(nodes: int, rails: int, leaves: int, spines: int) -> None:
    laid = wiring(plan(nodes, max_nodes=nodes))
    assert (len(laid.of(Level.LEAF)), len(laid.of(Level.SPINE))) == (leaves, spines)
    assert len(laid.cables) == 2 * nodes * rails


@pytest.mark.parametrize(
    ("switch", "rate", "ports", "width", "gbps", "per_unit", "spines"),
    [
        # 32 of 64 ports are split for 64 HCAs of 200 Gb/s, and 32 whole ones carry as much: half as many switches as at 400 Gb/s.
        ("qm9700", "NDR200", 64, "2x", 200, 64, 4),
        ("qm8700", "HDR100", 40, "2x", 100, 40, 10),
    ],
)
def test_split_ports_double_the_nodes_of_a_leaf(
    switch: str, rate: str, ports: int, width: str, gbps: int, per_unit: int, spines: int
) -> None:
    made = plan(64, max_nodes=64, switch=switch, rate=rate)
    fabric = fabric_of(made)
    assert (fabric.ports, fabric.speed, fabric.rate, fabric.switch_width) == (ports, rate.rstrip("0123456789"), rate, "4x")
    assert (fabric.width, fabric.rate_gbps) == (width, gbps)
    laid = wiring(made)
    assert (fabric.per_unit, len(laid.of(Level.SPINE))) == (per_unit, spines)
    assert {cable.switch_port for cable in laid.cables if cable.switch == "leaf-su1-r0"} == set(range(1, min(per_unit, 64) + 1))
    assert len({splitter for cable in laid.cables if (splitter := splitter_of(fabric, cable))}) == 64 * 8 // 2


def test_leaf_numbers_its_whole_ports_by_first_halves() -> None:
    """128 nodes: 32 split ports have the numbers 1 to 64, 32 whole ones 65, 67 … 127; of a spine, whose ports are whole, 1 to 16."""
    laid = wiring(plan(128, max_nodes=128, rate="NDR200"))
    up = [cable for cable in laid.cables if cable.device == "leaf-su2-r7"]
    assert sorted(cable.port for cable in up) == list(range(65, 129, 2))
    assert {cable.switch_port for cable in up} <= set(range(1, 65)) and len(laid.of(Level.SPINE)) == 8
    assert bisection_gbps(fabric_of(plan(128, max_nodes=128, rate="NDR200")), laid) == 64 * 8 * 200


def test_rate_of_whole_ports_changes_nothing() -> None:
    assert fabric_of(plan(4, max_nodes=4, rate="NDR")) == fabric_of(plan(4, max_nodes=4))


def test_a_subnet_manager_of_its_own_takes_a_port_of_every_unit() -> None:
    """As in that architecture, whose units have 31 nodes where UFM is plugged in."""
    fabric = fabric_of(plan(62, max_nodes=62, subnet_manager="login0"))
    assert (fabric.per_unit, fabric.uplinks) == (31, 32)
    own = [cable for cable in wiring(plan(62, max_nodes=62, subnet_manager="login0")).cables if cable.device.startswith("login0/")]
    assert [(cable.device, cable.switch, cable.switch_port) for cable in own] == [("login0/mlx5_0", "leaf-su1-r0", 64)]
    assert plan(62, max_nodes=62, subnet_manager="login0").node("login0").rails == ("mlx5_0",)
    assert plan(62, max_nodes=62, subnet_manager="worker0").node("login0").rails == ()


def test_a_fabric_of_one_leaf_has_no_spine() -> None:
    made = plan(4, max_nodes=4, topology="fat-tree")
    assert [switch.name for switch in wiring(made).switches] == ["leaf-01"]
    assert bisection_gbps(fabric_of(made), wiring(made)) is None


def test_ethernet_is_laid_out_alike() -> None:
    """Only the switch and what runs over it differ."""
    one, other = plan(64, max_nodes=64), plan(64, max_nodes=64, kind="roce")
    assert wiring(one) == wiring(other)
    assert (fabric_of(other).switch, fabric_of(other).link_layer, fabric_of(other).rate_gbps) == ("sn5400", "Ethernet", 400)


def test_nodes_that_are_out_stay_plugged_in() -> None:
    """They are repaired in place."""
    cluster = described(4, max_nodes=4).model_copy(update={"nodes": {}})
    out = cluster.model_copy(update={"nodes": load_out("worker1")})
    assert wiring(expand(out, "rack")) == wiring(expand(cluster, "rack"))


def load_out(name: str) -> Any:
    """A node that is out."""
    data = {"target": {"kind": "lab"}, "network": {"cidr": "10.77.0.0/24"}, "groups": {"worker": {"count": 2}}}
    loaded = load_cluster({**data, "nodes": {name: {"state": "out", "reason": "fan"}}})
    assert loaded.cluster is not None
    return loaded.cluster.nodes


def test_two_groups_lie_one_after_the_other() -> None:
    """As their addresses do: growing the first moves no cable of the second."""
    groups = {"login": {"count": 1, "roles": ["login", "controller"]}}
    big = {"count": 2, "roles": ["worker"], "reserved_addresses": 40, "gpus": {"model": "h100", "count": 8}}
    data = {"target": {"kind": "lab"}, "network": {"cidr": "10.77.0.0/24"}, "fabric": {"subnet_manager": "login0"}}
    cluster = load_cluster({**data, "groups": {**groups, "a": big, "b": {**big, "reserved_addresses": 8}}}).cluster
    more = load_cluster({**data, "groups": {**groups, "a": {**big, "count": 9}, "b": {**big, "reserved_addresses": 8}}}).cluster
    assert cluster is not None and more is not None
    fabric = expand_fabric(cluster)
    assert fabric is not None and fabric.places == {"a": 0, "b": 40} and fabric.nodes == 48
    assert set(wiring(expand(cluster, "x")).cables) < set(wiring(expand(more, "x")).cables)
    assert {placement.node for placement in at_size(expand(cluster, "x"), 6).placements} >= {"b2", "b3"}


def test_the_subnet_manager_stays_where_it_is_when_an_empty_group_grows() -> None:
    """Its leaf is there before any node of it is, and so is that leaf's way up."""
    empty, grows = (plan(2, (count, 40), max_nodes=48, subnet_manager="login0") for count in (0, 1))
    (own,) = (cable for cable in wiring(empty).cables if cable.device == "login0/mlx5_0")
    assert (own.switch, own.switch_port) == ("leaf-su1-r0", 64)
    assert set(wiring(empty).cables) < set(wiring(grows).cables)
    assert set(wiring(empty).switches) < set(wiring(grows).switches)


def test_asking_for_fewer_nodes_or_too_many_is_bad_input() -> None:
    with pytest.raises(InputError, match="the fabric already has 64"):
        at_size(rack(), 63)
    with pytest.raises(InputError, match="planned for 256"):
        at_size(rack(), 257)
    with pytest.raises(InputError, match="has no fabric"):
        at_size(rack("lab-small"), 4)


def test_switches_stand_where_they_will_always_stand() -> None:
    """Laid out for 256 nodes they fill four racks, and none stands on another."""
    standing = positions(fabric_of(rack()))
    assert len(standing) == 96 and len(set(standing.values())) == 96
    assert {position.rack for position in standing.values()} == {"n01", "n02", "n03", "n04"}
    assert all(1 <= position.unit <= 42 for position in standing.values())


def test_two_thousand_ports_take_less_than_a_second() -> None:
    """CPU time, best of three: the goal is for a machine with nothing else to do."""
    made = rack()
    fabric = fabric_of(made)
    placements = at_size(made, 256).placements
    best = min(_timed(fabric, placements) for _ in range(3))
    assert best < 1.0


def _timed(fabric: FabricPlan, placements: Any) -> float:
    started = time.process_time()
    assert len(wire_placements(fabric, placements).cables) == 4096
    return time.process_time() - started
