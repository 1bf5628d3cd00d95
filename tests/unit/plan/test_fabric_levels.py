"""Fabrics of three levels, and ports that serve HCAs of another rate: split ones, and whole ones at a lower speed."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from rackwright.catalog.switches import switches
from rackwright.derive.fabric_layout import Pods, compute_layout
from rackwright.plan import Plan, expand
from rackwright.plan.fabric import Level, Wiring, wiring
from rackwright.plan.fabric.growth import at_size, steps
from rackwright.plan.fabric.labels import node_labels
from rackwright.plan.fabric.netlist import port_guids
from rackwright.plan.fabric.physical import positions
from rackwright.plan.fabric.schema import FabricPlan
from rackwright.plan.fabric.summary import counts, sections
from rackwright.plan.fabric.svg import picture
from rackwright.stackfile.load import load_cluster


def plan(workers: int, gpus: int = 8, **fabric: Any) -> Plan:
    """A plan of machines with GPUs and a fabric."""
    machines = {f"worker[0-{workers - 1}]": {"address": "10.30.1.1"}, "login0": {"address": "10.30.0.9"}}
    groups = {"worker": {"count": workers, "reserved_addresses": 4096, "gpus": {"model": "h100", "count": gpus}}}
    loaded = load_cluster(
        {
            "target": {"kind": "hosts", "os": "debian-13", "machines": machines},
            "network": {"cidr": "10.30.0.0/16"},
            "groups": {"login": {"count": 1, "roles": ["login", "controller"]}, **groups},
            "fabric": fabric,
        }
    )
    assert loaded.cluster is not None, loaded.findings
    return expand(loaded.cluster, "rack")


def cached_plan(workers: int, **given: Any) -> Callable[[], Plan]:
    """Return a function that makes a plan once; this table is read by each worker that collects tests."""
    return functools.cache(functools.partial(plan, workers, **given))


def fabric_of(made: Plan) -> FabricPlan:
    assert made.fabric is not None
    return made.fabric


def ends(laid: Wiring) -> Counter[tuple[str, int]]:
    """Return every end of every cable."""
    near = ((cable.device, cable.port) for cable in laid.cables)
    return Counter(itertools.chain(near, ((cable.switch, cable.switch_port) for cable in laid.cables)))


THREE: dict[str, tuple[Callable[[], Plan], int]] = {
    "ndr-512": (cached_plan(512, max_nodes=512), 512),
    "ndr-grows": (cached_plan(40, max_nodes=300), 300),
    "hdr-split": (cached_plan(30, switch="qm8700", rate="HDR100", max_nodes=400), 400),
    "hdr-managed": (cached_plan(30, switch="qm8700", subnet_manager="login0", max_nodes=260), 260),
    "edr-fat-tree": (cached_plan(100, gpus=4, switch="sb7800", topology="fat-tree", oversubscription=2, max_nodes=500), 500),
    "one-rail": (cached_plan(700, gpus=1, switch="sb7800", max_nodes=900), 900),
}


def made_and_size(key: str) -> tuple[Plan, int]:
    """Return a plan of the table and the number of nodes that it may grow to."""
    make, nodes = THREE[key]
    return make(), nodes


@pytest.mark.parametrize("key", THREE)
def test_three_levels_use_each_port_once(key: str) -> None:
    made, nodes = made_and_size(key)
    fabric, laid = fabric_of(made), at_size(made, nodes)
    used, names = ends(laid), {switch.name: switch.level for switch in laid.switches}
    assert fabric.pods is not None
    assert set(names.values()) == set(Level)
    assert max(used.values()) == 1
    guids = port_guids(made)
    assert len(set(guids.values())) == len(guids)
    limits = {name: fabric.ports * (fabric.split if level is Level.LEAF else 1) for name, level in names.items()}
    assert all(1 <= port <= limits[device] for device, port in used if device in limits)
    assert {cable.switch for cable in laid.cables} <= set(names)


@pytest.mark.parametrize("key", THREE)
def test_three_levels_block_no_more_than_declared(key: str) -> None:
    """Each leaf has the same links to the spines of its pod, each spine as many up as down, each core as many to every pod."""
    made, nodes = made_and_size(key)
    fabric, laid = fabric_of(made), at_size(made, nodes)
    assert fabric.pods is not None
    level = {switch.name: switch.level for switch in laid.switches}
    up = {name: Counter[str]() for name in level}
    down = {name: Counter[str]() for name in level}
    for cable in laid.cables:
        if cable.device in level:
            up[cable.device][cable.switch] += 1
            down[cable.switch][cable.device] += 1
    for leaf in laid.of(Level.LEAF):
        pod = fabric.pod_of(leaf.number // fabric.leaves_per_unit)
        assert set(up[leaf.name]) == {f"spine-p{pod + 1}-{number + 1:02}" for number in range(fabric.spines)}
        assert set(up[leaf.name].values()) == {fabric.links}
    assert all(up[spine.name].total() >= down[spine.name].total() for spine in laid.of(Level.SPINE))
    assert all(len(set(down[core.name].values())) == 1 for core in laid.of(Level.CORE))
    assert fabric.downlinks <= fabric.upward * fabric.oversubscription


@pytest.mark.parametrize("key", THREE)
def test_three_levels_grow_without_moving_cables(key: str) -> None:
    made, nodes = made_and_size(key)
    before, after = wiring(made), at_size(made, nodes)
    assert set(before.cables) <= set(after.cables)
    assert set(before.switches) <= set(after.switches)
    assert not any(step.moved for step in steps(made))


def test_counts_of_512_nodes() -> None:
    """Published designs have 320 switches for 512 nodes of eight rails, 128 of them leaves and 128 spines."""
    made = plan(512, max_nodes=512)
    found = counts(made, wiring(made))
    assert (found["leaves"], found["spines"], found["cores"]) == (128, 128, 64)
    assert found["cables_between_switches"] == 8192
    assert found["bisection_gbps"] == 256 * 8 * 400
    assert compute_layout(ports=64, rails=8, nodes=256) == compute_layout(ports=64, rails=8, nodes=256, worth=1)
    layout = compute_layout(ports=64, rails=8, nodes=257)
    assert layout is not None and layout.pods == Pods(number=3, units=4, cores=2, uplinks=32)
    assert compute_layout(ports=64, rails=8, nodes=8193) is None


def test_texts_of_three_levels() -> None:
    """The scheduler, Kubernetes and the reader see the pods."""
    made = plan(300, max_nodes=512)
    topology = made.scheduler.topology if made.scheduler.kind == "slurm" else None
    assert topology is not None
    assert topology.lines[-4:-1] == (
        "SwitchName=pod1 Switches=su1,su2,su3,su4",
        "SwitchName=pod2 Switches=su5,su6,su7,su8",
        "SwitchName=pod3 Switches=su9,su10",
    )
    assert topology.lines[-1].startswith("SwitchName=core Switches=pod1,pod2,pod3")
    labels = node_labels(made)["worker299"]
    assert (labels["network.topology.nvidia.com/spine"], labels["network.topology.nvidia.com/core"]) == ("pod3", "core")
    text = "\n".join(part for part in sections(made) if isinstance(part, str))
    assert "three levels: 4 pods of 4 scalable units; each spine has 32 links to 2 cores" in text
    assert "128 leaves, 128 spines and 64 cores" in picture(plan(512, max_nodes=512))


def test_positions_of_three_levels_are_unique() -> None:
    floor = {"rows": [["c1", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"]], "switch_racks": [f"s{number}" for number in range(1, 9)]}
    made = plan(512, max_nodes=512, floor_plan=floor)
    found = positions(fabric_of(made))
    assert len(found) == 320 == len(set(found.values()))
    assert max(place.unit for place in found.values()) <= 42


@pytest.mark.parametrize(
    ("said", "split", "width", "gbps", "rate"),
    [
        ({}, 1, "4x", 400, "4x NDR"),
        ({"rate": "NDR200"}, 2, "2x", 200, "2x NDR"),
        ({"rate": "HDR"}, 1, "4x", 200, "4x HDR"),
        ({"rate": "EDR", "split": 1}, 1, "4x", 100, "4x EDR"),
        ({"switch": "q3400", "rate": "XDR400"}, 2, "2x", 400, "2x XDR"),
        ({"switch": "q3400", "rate": "NDR"}, 1, "4x", 400, "4x NDR"),
        ({"switch": "qm8700", "rate": "EDR"}, 1, "4x", 100, "4x EDR"),
        ({"kind": "roce", "switch": "sn4700", "rate": "200GbE"}, 2, "4x", 200, "4x 400GbE"),
        ({"kind": "roce", "switch": "sn4700", "rate": "100GbE"}, 4, "2x", 100, "2x 400GbE"),
        ({"kind": "roce", "switch": "sn4700", "rate": "100GbE", "split": 1}, 1, "8x", 100, "8x 100GbE"),
        ({"kind": "roce", "switch": "dcs-7060x6-64pe", "rate": "100GbE"}, 8, "1x", 100, "1x 800GbE"),
        ({"kind": "roce", "switch": "sn2700", "rate": "25GbE"}, 1, "4x", 25, "4x 25GbE"),
    ],
)
def test_port_serves_rate_of_hcas(said: dict[str, Any], split: int, width: str, gbps: int, rate: str) -> None:
    fabric = fabric_of(plan(4, max_nodes=8, **said))
    assert (fabric.split, fabric.width, fabric.rate_gbps, fabric.hca_rate) == (split, width, gbps, rate)


def test_uplink_carries_several_slow_hcas() -> None:
    """HCAs of 200 Gb/s at whole ports of 400 Gb/s: a non-blocking leaf of 64 ports has 42 of them; two spines get 11 cables each."""
    fabric = fabric_of(plan(64, rate="HDR", max_nodes=168))
    assert (fabric.per_unit, fabric.uplinks, fabric.upward) == (42, 22, 44)


def test_ethernet_switches_split_within_their_lanes() -> None:
    """A part of a port has a whole number of its lanes, and as much of its rate."""
    for switch in switches().values():
        for rate, parts in switch.splits.items():
            assert int(switch.width.removesuffix("x")) % parts == 0, switch.model
            if switch.link_layer == "Ethernet":
                assert rate == f"{switch.rate_gbps // parts}GbE", switch.model
