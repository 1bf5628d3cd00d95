"""What others read of a fabric: netlist, Slurm's topology, labels, NCCL's lines, the cable list, the picture."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from typing import Any
from xml.etree import ElementTree

import pytest

from rackwright.catalog.switches import media
from rackwright.errors import InputError
from rackwright.inventory import Host, inventory, paths, schema_errors
from rackwright.model.hostlists import compressed
from rackwright.plan import Plan, expand
from rackwright.plan.fabric import netlist, wiring
from rackwright.plan.fabric.cable_list import as_csv, rows
from rackwright.plan.fabric.labels import nccl, node_labels
from rackwright.plan.fabric.management import management
from rackwright.plan.fabric.netlist import port_guids
from rackwright.plan.fabric.slurm import topology
from rackwright.plan.fabric.summary import counts, headline, sections, summary
from rackwright.plan.fabric.svg import picture
from rackwright.stackfile.load import load_cluster, load_stack


def stack(name: str, **fabric: Any) -> Plan:
    """A committed stack, its fabric changed."""
    cluster = load_stack(paths.stack_file(name)).cluster
    assert cluster is not None and cluster.fabric is not None
    return expand(cluster.model_copy(update={"fabric": cluster.fabric.model_copy(update=fabric)}), name)


def test_the_netlist_tells_each_cable_from_both_its_ends() -> None:
    """The simulator refuses a link that only one side knows."""
    plan = stack("lab")
    text = netlist(plan)
    told = Counter()
    device = ""
    for line in text.splitlines():
        head = re.match(r'(?:Ca|Switch) \d+ "(.+?)"', line)
        device = head[1] if head else device
        link = re.match(r'\[(\d+)\] "(.+?)"\[(\d+)\]', line)
        if link:
            told[frozenset({(device, int(link[1])), (link[2], int(link[3]))})] += 1
    assert set(told.values()) == {2}
    assert set(told) == {frozenset({(c.device, c.port), (c.switch, c.switch_port)}) for c in wiring(plan).cables}


def test_every_device_of_the_netlist_has_a_guid_of_its_own_that_stays() -> None:
    """When a worker is added, no other node's texts change."""

    def guids(workers: int) -> dict[str, str]:
        cluster = load_stack(paths.stack_file("lab")).cluster
        assert cluster is not None
        groups = {**cluster.groups, "worker": cluster.groups["worker"].model_copy(update={"count": workers})}
        text = netlist(expand(cluster.model_copy(update={"groups": groups}), "lab"))
        return {name: guid for guid, name in re.findall(r'(?:ca|switch)guid=(0x[0-9a-f]{16})\n(?:Ca|Switch) \d+ "(.+?)"', text)}

    two, three = guids(2), guids(3)
    assert len(two) == 27 and len(set(two.values())) == 27
    assert two.items() < three.items()


def test_ports_have_the_guids_that_the_simulator_gives_them() -> None:
    """It adds the number of an adapter's port to the GUID of the netlist, and nothing for a switch."""
    plan = stack("lab")
    named = re.findall(r'(ca|switch)guid=(0x[0-9a-f]{16})\n(?:Ca|Switch) \d+ "(.+?)"', netlist(plan))
    assert port_guids(plan) == {name: int(guid, 16) + (kind == "ca") for kind, guid, name in named}


def test_a_fabric_of_ethernet_has_no_netlist() -> None:
    with pytest.raises(InputError, match="no InfiniBand fabric"):
        netlist(stack("rack-h100", kind="roce", switch="sn5400"))


def test_slurm_is_told_of_scalable_units() -> None:
    plan = stack("rack-h100")
    assert plan.scheduler.topology is not None
    assert plan.scheduler.topology.plugin == "topology/tree"
    assert plan.scheduler.topology.lines == (
        "SwitchName=su1 Nodes=worker[0-31]",
        "SwitchName=su2 Nodes=worker[32-63]",
        "SwitchName=spine Switches=su1,su2",
    )


def test_slurm_is_told_nothing_where_all_nodes_are_alike() -> None:
    assert stack("lab").scheduler.topology is None
    assert topology(None, {}, ["worker0"]) is None


def test_nodes_beside_the_fabric_stay_within_reach() -> None:
    """A job may span both kinds, as it could without a topology."""
    found = topology(stack("rack-h100").fabric, {"worker0": 0, "worker40": 40}, ["worker0", "cpu0", "worker40"])
    assert found is not None
    assert found.lines == (
        "SwitchName=su1 Nodes=worker0",
        "SwitchName=su2 Nodes=worker40",
        "SwitchName=apart Nodes=cpu0",
        "SwitchName=spine Switches=su1,su2,apart",
    )


def test_nvlink_domains_are_blocks() -> None:
    """Jobs are packed by the smallest: slurmctld 24.11 dies of a block with fewer nodes than `BlockSizes`, or than the first without it."""
    plan = stack("rack-h100", nvlink_domain=16)
    assert plan.scheduler.topology is not None and plan.scheduler.topology.plugin == "topology/block"
    assert plan.scheduler.topology.lines[0] == "BlockName=nvl1 Nodes=worker[0-15]"
    assert plan.scheduler.topology.lines[-1] == "BlockSizes=16"
    odd = stack("rack-h100", nvlink_domain=18).scheduler.topology
    assert odd is not None and odd.lines[-2:] == ("BlockName=nvl4 Nodes=worker[54-63]", "BlockSizes=10")


def test_no_nvlink_domain_is_split_or_shared_by_groups() -> None:
    """A rack is filled with nodes of one group, and places, which follow capacities, say nothing of it. What has no GPUs has no NVLink."""
    plan = groups(
        a={"count": 20, "reserved_addresses": 40},
        cpu={"count": 2, "gpus": None},
        b={"count": 18, "reserved_addresses": 36},
        nvlink_domain=18,
    )
    assert plan.scheduler.topology is not None
    assert plan.scheduler.topology.lines == (
        "BlockName=nvl1 Nodes=a[0-17]",
        "BlockName=nvl2 Nodes=a[18-19]",
        "BlockName=nvl4 Nodes=b[0-17]",
        "BlockSizes=2",
    )
    labels = {node: row.get("network.topology.nvidia.com/accelerator") for node, row in node_labels(plan).items()}
    assert (labels["a17"], labels["a18"], labels["b0"], labels["b17"], labels["cpu0"]) == ("nvl1", "nvl2", "nvl4", "nvl4", None)


def groups(nvlink_domain: int, **said: Any) -> Plan:
    """A plan of such groups of workers, all of them on the fabric."""
    usual = {"roles": ["worker"], "gpus": {"model": "h100", "count": 8}}
    loaded = load_cluster(
        {
            "target": {"kind": "lab"},
            "network": {"cidr": "10.77.0.0/16"},
            "groups": {"login": {"count": 1, "roles": ["login", "controller"]}} | {name: usual | group for name, group in said.items()},
            "fabric": {"subnet_manager": "login0", "groups": list(said), "nvlink_domain": nvlink_domain},
        }
    )
    assert loaded.cluster is not None, loaded.findings
    return expand(loaded.cluster, "x")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a0"], "a0"),
        (["a0", "a1", "a3"], "a[0-1,3]"),
        (["a9", "a10", "b2"], "a[9-10],b2"),
        (["a3", "a1", "a2"], "a[1-3]"),
        (["n01", "n1"], "n01,n1"),
        ([], ""),
    ],
)
def test_node_lists_are_written_as_slurm_reads_them(names: list[str], text: str) -> None:
    assert compressed(names) == text


def test_kubernetes_is_told_what_a_node_shares() -> None:
    labels = node_labels(stack("rack-h100", nvlink_domain=16))
    assert len(labels) == 64
    assert labels["worker33"] == {
        "network.topology.nvidia.com/accelerator": "nvl3",
        "network.topology.nvidia.com/leaf": "su2",
        "network.topology.nvidia.com/spine": "spine",
        "rackwright.fabric/rails": "8",
    }
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", value) for row in labels.values() for value in row.values())


def test_nccl_is_told_of_hcas_only_where_there_are_others() -> None:
    """Exactly these: mlx5_1 alone would also mean mlx5_10."""
    assert nccl(fabric_of(stack("rack-h100"))) == {}
    named = stack("rack-h100", hcas=("mlx5_0", "mlx5_3"), rails=2)
    assert nccl(fabric_of(named)) == {"NCCL_IB_HCA": "=mlx5_0,mlx5_3"}


def fabric_of(plan: Plan) -> Any:
    assert plan.fabric is not None
    return plan.fabric


def test_the_cable_list_has_both_planes_and_what_growth_adds() -> None:
    plan = stack("rack-h100")
    found = list(csv.DictReader(io.StringIO(as_csv(rows(plan, 256)))))
    counted = Counter((row["plane"], row["state"]) for row in found)
    assert counted == {
        ("compute", "present"): 1024,
        ("compute", "added"): 3072,
        ("management", "present"): 194,
        ("management", "added"): 432,
    }
    assert {row["state"] for row in csv.DictReader(io.StringIO(as_csv(rows(plan))))} == {"present"}
    assert not {row["to_device"] for row in found if row["plane"] == "compute"} & {
        row["to_device"] for row in found if row["plane"] == "management"
    }


def test_lengths_follow_from_where_racks_stand_and_media_from_lengths() -> None:
    """worker0 in r01, four racks from its leaf's: up, along and down is 2 x 2.5 m and 4 x 0.6 m."""
    every = rows(stack("rack-h100"))
    by_end = {row.from_device: row for row in every if row.plane == "compute"}
    assert (by_end["worker0/mlx5_0"].length_m, by_end["worker0/mlx5_0"].medium) == ("8", "multimode fibre")
    assert {(row.length_m, row.medium) for row in every if row.from_rack == row.to_rack and row.speed == "NDR"} == {("2", "copper")}
    reach = {medium.name: medium.reach_m for medium in media("NDR")}
    assert all(int(row.length_m) <= reach[row.medium] for row in every if row.speed == "NDR")


def test_where_nobody_knows_where_racks_stand_no_length_is_made_up() -> None:
    assert {(row.length_m, row.medium) for row in rows(stack("rack-h100", floor_plan=None, management_network=None))} == {("", "")}
    assert {(row.length_m, row.medium) for row in rows(stack("rack-h100", switch="qm8700", max_nodes=64)) if row.speed == "HDR"} >= {
        ("2", "")
    }


def test_splitter_cable_is_listed_once_for_each_tail() -> None:
    """Both tails with the length of the longer one, and only once in the count of what is ordered."""
    plan = stack("rack-h100", rate="NDR200", max_nodes=64)
    every = [row for row in rows(plan) if row.plane == "compute"]
    down, up = [row for row in every if "/" in row.from_device], [row for row in every if "/" not in row.from_device]
    tails = Counter(row.splitter for row in down)
    assert set(tails.values()) == {2} and len(tails) == counts(plan, wiring(plan))["splitter_cables"] == 64 * 8 // 2
    assert {row.speed for row in down} == {"NDR200"} and {(row.speed, row.splitter) for row in up} <= {("NDR", "")}
    assert len({(row.splitter, row.length_m) for row in down}) == len(tails)
    assert "InfiniBand NDR200" in headline(plan) and "64 ports of 400 Gb/s, those of HCAs split in two" in headline(plan)
    assert counts(stack("rack-h100"), wiring(stack("rack-h100")))["splitter_cables"] == 0
    floor = {"rows": [["r1", "n1", "r2", "r3"]], "switch_racks": ["n1"]}
    apart = racks(2, {"worker0": "r1", "worker1": "r3"}, max_nodes=2, rate="NDR200", rails=1, floor_plan=floor)
    assert [row.length_m for row in rows(apart)] == ["7", "7"], "6 m and 7 m"


def test_the_hand_over_has_every_cable_beside_the_cluster() -> None:
    plan = stack("rack-h100")
    handed = inventory(plan, {node.name: Host(node.name, node.address, "ssh-ed25519 AAAA", "1") for node in plan.nodes})
    fabric = handed["all"]["vars"]["fabric"]
    assert schema_errors(handed) == []
    assert (fabric["speed"], fabric["width"], fabric["rate_gbps"], fabric["simulated"], fabric["server"]) == ("NDR", "4x", 400, False, None)
    assert len(fabric["cables"]) == 1024 and fabric["cables"][0] == "worker0/mlx5_0:1 leaf-su1-r0:1"
    assert "fabric" not in handed["all"]["vars"]["cluster"]
    assert set(handed["all"]["children"]["fabric"]["hosts"]) == {f"worker{index}" for index in range(64)}


@pytest.mark.parametrize("nodes", [None, 256])
def test_the_picture_shows_every_switch_and_every_node(nodes: int | None) -> None:
    plan = stack("rack-h100")
    drawn = ElementTree.fromstring(picture(plan, nodes))
    boxes = Counter(element.get("class") for element in drawn.iter("{http://www.w3.org/2000/svg}rect"))
    assert (boxes["spine"], boxes["leaf"], boxes["node"]) == ((32, 16, 73) if nodes is None else (32, 64, 265))
    assert boxes["rack"] == boxes["plane"] == (10 if nodes is None else 34)
    lines = "".join(
        element.get("d") or "" for element in drawn.iter("{http://www.w3.org/2000/svg}path") if element.get("class") == "wire up"
    )
    assert lines.count("M") == boxes["spine"] * boxes["leaf"]


@pytest.mark.parametrize("nodes", [800, 1024])
def test_hundreds_of_racks_stand_in_rows(nodes: int) -> None:
    """Side by side they would be thinner than nothing. None covers another, and each has its switch of the management plane below it."""
    workers = {f"worker[{first}-{first + 3}]": f"r{first // 4 + 1}" for first in range(0, 800, 4)}
    floor = {"rows": [[f"r{number}" for number in range(1, 257)], ["n1"]], "switch_racks": ["n1"]}
    plan = racks(800, workers, kind="roce", switch="sn5600", max_nodes=1024, floor_plan=floor, management_network={})
    drawn = ElementTree.fromstring(picture(plan, nodes))
    boxes = [element.attrib for element in drawn.iter("{http://www.w3.org/2000/svg}rect")]
    assert all(float(box["width"]) > 0 and float(box["height"]) > 0 for box in boxes)
    assert all(float(box.get("x", 0)) >= 0 and float(box.get("y", 0)) + float(box["height"]) <= float(boxes[0]["height"]) for box in boxes)
    cabinets, below = ([box for box in boxes if box.get("class") == kind] for kind in ("rack", "plane"))
    assert len(cabinets) == len(below) == nodes // 4
    sides = [sides_of(box) for box in cabinets + below]
    assert not any(overlap(one, other) for one, other in itertools.combinations(sides, 2))
    lines = [element for element in drawn.iter("{http://www.w3.org/2000/svg}path") if "H" in (element.get("d") or "")]
    assert len(lines) == len({box["y"] for box in cabinets}), "one line of the site's network below each row"


Sides = tuple[float, float, float, float]
"""Left, right, top and bottom of a box."""


def sides_of(box: dict[str, str]) -> Sides:
    left, top = float(box["x"]), float(box["y"])
    return left, left + float(box["width"]), top, top + float(box["height"])


def overlap(one: Sides, other: Sides) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def test_the_committed_picture_is_current() -> None:
    """`rackwright fabric svg rack-h100 -o docs/fabric-rack-h100.svg` draws it again."""
    assert (paths.project_root() / "docs" / "fabric-rack-h100.svg").read_text(encoding="utf-8") == picture(stack("rack-h100"))


def test_a_fabric_without_racks_is_drawn_by_what_shares_leaves() -> None:
    words = {element.text for element in ElementTree.fromstring(picture(stack("lab"))).iter("{http://www.w3.org/2000/svg}text")}
    assert {"su1", "worker0", "worker1", "login0", "r7"} <= words
    assert not management(stack("lab"), wiring(stack("lab"))).cables


def racks(count: int, workers: dict[str, str], login: str | None = "r1", **fabric: Any) -> Plan:
    """A plan of machines in racks: a range of workers -> its rack, and the login node's."""
    machines = {name: {"address": "10.30.1.1", "rack": rack} for name, rack in workers.items()}
    loaded = load_cluster(
        {
            "target": {"kind": "hosts", "os": "debian-13", "machines": {**machines, "login0": {"address": "10.30.0.9", "rack": login}}},
            "network": {"cidr": "10.30.0.0/16"},
            "groups": {
                "login": {"count": 1, "roles": ["login", "controller"]},
                "worker": {"count": count, "reserved_addresses": 4096, "gpus": {"model": "h100", "count": 8}},
            },
            "fabric": fabric,
        }
    )
    assert loaded.cluster is not None, loaded.findings
    return expand(loaded.cluster, "x")


def test_no_two_management_switches_have_one_name() -> None:
    """The second of rack r1 is not the first of rack r1-2."""
    plan = racks(32, {"worker[0-29]": "r1", "worker[30-31]": "r1-2"}, max_nodes=32, management_network={})
    switches = management(plan, wiring(plan)).switches
    assert [tuple(switch) for switch in switches] == [("mgmt-r1", "r1"), ("mgmt-r1.2", "r1"), ("mgmt-r1-2", "r1-2")]


def notes(plan: Plan) -> str:
    return next(part for part in sections(plan) if isinstance(part, str) and "links down" in part)


def test_what_the_cable_list_leaves_out_is_said() -> None:
    """Of nodes to come that find no rack, and of switches that stand nowhere."""
    floor = {"rows": [["r1", "r2", "n1", "r3"]], "switch_racks": ["n1"]}
    full = racks(4, {"worker[0-3]": "r2"}, max_nodes=8, floor_plan=floor, management_network={})
    assert "no rack" not in notes(full)
    assert {row.to_rack for row in rows(full, 8)} == {"r1", "r2", "r3", "n1"}
    more = racks(4, {"worker[0-3]": "r2"}, max_nodes=11, floor_plan=floor, management_network={})
    assert "3 nodes of the full fabric have no rack: their cables have no length; their management ports are not listed" in notes(more)
    assert summary(more)["without_rack"] == {"nodes": 3, "switches": 0}
    nowhere = racks(4, {"worker[0-3]": "r2"}, max_nodes=4, management_network={})
    assert "10 switches of the full fabric have no rack without `floor_plan`: their management ports are not listed" in notes(nowhere)
    assert not [row for row in rows(nowhere) if row.from_device.endswith("/mgmt")]


def test_a_subnet_manager_without_rack_is_one_of_those_that_have_none() -> None:
    floor = {"rows": [["r2", "n1"]], "switch_racks": ["n1"]}
    plan = racks(2, {"worker[0-1]": "r2"}, None, max_nodes=2, floor_plan=floor, subnet_manager="login0")
    assert "1 node of the full fabric has no rack: its cables have no length" in notes(plan).splitlines()
    assert "no rack" not in notes(racks(2, {"worker[0-1]": "r2"}, None, max_nodes=2, floor_plan=floor))


def test_dpus_are_an_inventory() -> None:
    assert [(dpus.group, dpus.model, dpus.count, dpus.mode) for dpus in fabric_of(stack("rack-h100")).dpus] == [
        ("worker", "bluefield-3", 2, "nic")
    ]


def test_a_stack_may_name_its_hcas() -> None:
    """DGX H100 has others between them."""
    data = {"target": {"kind": "lab"}, "network": {"cidr": "10.77.0.0/24"}}
    groups = {"login": {"count": 1, "roles": ["login", "controller"]}, "worker": {"count": 1, "gpus": {"model": "h100", "count": 8}}}
    loaded = load_cluster({**data, "groups": groups, "fabric": {"subnet_manager": "login0", "hcas": ["mlx5_0", "mlx5_3"]}})
    assert loaded.cluster is not None
    plan = expand(loaded.cluster, "x")
    assert plan.node("worker0").rails == ("mlx5_0", "mlx5_3")
    assert fabric_of(plan).rails == 2
    assert {cable.device for cable in wiring(plan).cables if cable.rail is not None} == {"worker0/mlx5_0", "worker0/mlx5_3"}
