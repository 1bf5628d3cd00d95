"""Found hardware compared with the plan: each difference is found, a missing answer is unknown, simulated parts are named."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from rackwright.checks.hardware.parsers import parse_gpus
from rackwright.inventory.reader import from_inventory
from rackwright.report.hardware import document as contract
from rackwright.report.hardware.document import CollectedFacts, Section, document
from rackwright.report.hardware.facts import Facts, Part
from rackwright.report.hardware.terminal import render

from .conftest import GPUS, captured

STATES = ("healthy", "sick")
SCHEMA = Draft202012Validator(json.loads(Path(contract.__file__).with_name("hardware.schema.json").read_text()))
STARTED = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)


def login(facts):
    """Return the facts of a node without GPUs and without a fabric."""
    return replace(facts, gpus=None, gpu_links=None, rdma=())


def asked(seen, section):
    """Return the collected parts of a section."""
    facts = {part: getattr(seen.facts, part) for part in section.parts}
    return replace(seen, facts=Facts(**facts, unknown={part: why for part, why in seen.facts.unknown.items() if part in section.parts}))


def report(declared, seen, section=Section.SUMMARY):
    """Return a report, read back from JSON and valid for its schema."""
    seen = {name: asked(one, section) for name, one in seen.items()}
    found = json.loads(json.dumps(document(declared, section, seen, started=STARTED, seconds=1.5, collected_via="ssh")))
    SCHEMA.validate(found)
    return found


def differing(found):
    """Return the differences of each node that has some."""
    return {node["name"]: node["differences"] for node in found["nodes"] if node["differences"]}


def shown(found):
    """Return the report on a terminal of 110 columns."""
    console = Console(width=110, color_system=None, highlight=False)
    with console.capture() as output:
        console.print(render(found))
    return "\n".join(line.rstrip() for line in output.get().splitlines()) + "\n"


@pytest.fixture
def healthy(declared, facts):
    """Return all nodes as planned."""
    return {name: CollectedFacts(login(facts) if name == "login0" else facts) for name in declared.nodes}


@pytest.fixture
def sick(healthy, facts):
    """Return one node with a lost GPU and a port down, one that does not respond, one whose driver does not respond."""
    lost = replace(facts, gpus=facts.gpus[:7], rdma=(*captured(Part.RDMA, "good-down"), *facts.rdma[4:]))
    untold = replace(facts, gpus=None, gpu_links=None, unknown={Part.GPUS: "gpus: the command ended with status 9: NVIDIA-SMI has failed"})
    return {
        **healthy,
        "worker0": CollectedFacts(lost),
        "worker1": CollectedFacts(untold),
        "worker2": CollectedFacts(unreachable="worker2 is unreachable: Connection timed out"),
    }


def test_planned_hardware_has_no_differences(declared, healthy):
    found = report(declared, healthy)
    assert (found["verdict"], [node["differences"] for node in found["nodes"]]) == ("passed", [[]] * 4)
    assert found["totals"]["gpus"] == {"planned": 24, "found": 24}
    assert found["totals"]["cpus"] == {"planned": 512, "found": 512}
    assert found["totals"]["rdma_ports"] == {"planned": 24, "found": 24}


CHANGES = {
    "CPUs": {"cpus": {"total": 64}},
    "memory": {"memory": 1_500_000},
    "GPUs": {"gpus": slice(7)},
    "GPU 0 product": {"gpus": {"product": "NVIDIA H800"}},
    "GPU 0 driver": {"gpus": {"driver": "535.1"}},
    "GPU 0 memory": {"gpus": {"memory_mib": 40000}},
    "GPU links": {"gpu_links": {"paths": captured(Part.GPU_LINKS, "good-pcie").paths}},
    "mlx5_7": {"rdma": slice(7)},
    "mlx5_0": {"rdma": {"state": "Initializing"}},
    "mlx5_0 rate": {"rdma": {"rate_gbps": 200.0}},
    "mlx5_0 link layer": {"rdma": {"link_layer": "Ethernet"}},
    "/mnt/sharedfs": {"mounts": slice(1)},
}


@pytest.mark.parametrize("subject", CHANGES)
def test_each_difference_is_reported_alone(declared, healthy, facts, subject):
    part, change = next(iter(CHANGES[subject].items()))
    now = getattr(facts, part)
    if isinstance(change, slice):
        changed = now[change]
    elif isinstance(change, dict):
        changed = (replace(now[0], **change), *now[1:]) if isinstance(now, tuple) else replace(now, **change)
    else:
        changed = change
    found = report(declared, {**healthy, "worker1": CollectedFacts(replace(facts, **{part: changed}))})
    assert {node["name"]: [one["subject"] for one in node["differences"]] for node in found["nodes"] if node["differences"]} == {
        "worker1": [subject]
    }
    assert found["verdict"] == "failed"


MIX = [{"model": "t4", "product": "Tesla T4", "memory_mib": 15360, "devices": [6, 7]}]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({6: {"product": "NVIDIA H100 80GB HBM3", "memory_mib": 81559}}, [("GPUs", "7 × NVIDIA H100 80GB HBM3, 1 × Tesla T4")]),
        ({7: {"memory_mib": 7680}}, [("GPU 7 memory", "7680 MiB")]),
        ({0: {"memory_mib": 15360}}, [("GPU 0 memory", "15360 MiB")]),
        ({7: {"product": None}}, []),
        (
            {7: {"product": "NVIDIA L4"}},
            [("GPUs", "6 × NVIDIA H100 80GB HBM3, 1 × Tesla T4, 1 × NVIDIA L4"), ("GPU 7 product", "NVIDIA L4")],
        ),
    ],
    ids=["planned", "other-numbers", "memory-of-other", "memory-of-model", "unread", "unplanned"],
)
def test_gpus_of_several_models_are_compared_by_product(inventory, healthy, facts, changes, expected):
    """Numbers by product, and the memory of each product."""
    inventory["all"]["hosts"]["worker1"]["node"]["gpus"] = {**GPUS, "others": MIX}
    planned = [{"product": "Tesla T4", "memory_mib": 15360} if index >= 6 else {} for index in range(8)]
    gpus = tuple(replace(gpu, **{**planned[index], **changes.get(index, {})}) for index, gpu in enumerate(facts.gpus))
    found = report(from_inventory(inventory), {**healthy, "worker1": CollectedFacts(replace(facts, gpus=gpus))})
    assert [(one["subject"], one["found"]) for one in differing(found).get("worker1", [])] == expected
    assert found["totals"]["gpu_memory_mib"]["planned"] == 22 * 81559 + 2 * 15360


def test_gpu_with_the_memory_of_its_cpu_has_no_size_to_compare(inventory, healthy):
    """nvidia-smi prints `[N/A]` for the memory of GB10 (XuehaiPan/nvitop issue 208)."""
    row = "0, NVIDIA GB10, [N/A], 580.126.09, 0000000F:01:00.0, GPU-12345678-1234-1234-1234-123456789abc\n"
    seen = {**healthy, "worker0": CollectedFacts(replace(healthy["worker0"].facts, gpus=tuple(parse_gpus(row))))}
    planned = {**GPUS, "model": "gb10", "count": 1, "product": "NVIDIA GB10", "memory_mib": None, "driver": "580.126.09", "nvswitch": False}
    inventory["all"]["hosts"]["worker0"]["node"]["gpus"] = planned
    found = report(from_inventory(inventory), seen)
    (node,) = [one for one in found["nodes"] if one["name"] == "worker0"]
    assert (node["unknown"], [one["subject"] for one in node["differences"]]) == ({}, [])
    assert "NVIDIA GB10" in shown(found)

    planned["memory_mib"] = 122572
    (node,) = [one for one in report(from_inventory(inventory), seen)["nodes"] if one["name"] == "worker0"]
    assert (node["verdict"], node["unknown"]) == ("unknown", {"gpus": "GPU 0 reports no memory, and 122572 MiB are planned"})


def test_gpus_without_mutual_nvlink_are_named(declared, healthy, facts):
    paths = {gpu: dict(others) for gpu, others in facts.gpu_links.paths.items()}
    paths["GPU0"]["GPU3"] = paths["GPU3"]["GPU0"] = "SYS"
    found = report(declared, {**healthy, "worker0": CollectedFacts(replace(facts, gpu_links=replace(facts.gpu_links, paths=paths)))})
    assert differing(found) == {"worker0": [{"subject": "GPU links", "planned": "NVLink between all pairs", "found": "SYS between 0-3"}]}
    found = report(declared, {**healthy, "worker0": CollectedFacts(replace(facts, gpu_links=captured(Part.GPU_LINKS, "good-pcie")))})
    assert [one["found"] for one in differing(found)["worker0"]] == [
        "PIX between 0-1, 2-3, 4-5, 6-7; NODE between 8 pairs; SYS between 16 pairs"
    ]


def test_gpus_without_nvswitch_may_use_any_link(inventory, healthy, facts):
    inventory["all"]["hosts"]["worker0"]["node"]["gpus"] = {**GPUS, "nvswitch": False}
    found = report(
        from_inventory(inventory), {**healthy, "worker0": CollectedFacts(replace(facts, gpu_links=captured(Part.GPU_LINKS, "good-pcie")))}
    )
    assert differing(found) == {}


def test_rail_is_first_port_of_card(declared, healthy, facts):
    second = replace(facts.rdma[0], port=2, state="Down", physical="Disabled")
    for ports in ((*facts.rdma, second), (second, *facts.rdma)):
        assert differing(report(declared, {**healthy, "worker0": CollectedFacts(replace(facts, rdma=ports))})) == {}
    found = report(declared, {**healthy, "worker0": CollectedFacts(replace(facts, rdma=(second, *facts.rdma[1:])))})
    assert differing(found) == {"worker0": [{"subject": "mlx5_0", "planned": "port 1", "found": "no such port"}]}


def test_unresponsive_node_makes_total_unknown(declared, healthy):
    found = report(declared, {**healthy, "worker2": CollectedFacts(unreachable="worker2 is unreachable")})
    assert (found["verdict"], found["totals"]["gpus"], found["totals"]["nodes"]) == (
        "unknown",
        {"planned": 24, "found": None},
        {"planned": 4, "found": 3},
    )


def test_unread_part_makes_node_unknown(declared, sick):
    found = report(declared, sick)
    assert {node["name"]: node["verdict"] for node in found["nodes"]} == {
        "login0": "passed",
        "worker0": "failed",
        "worker1": "unknown",
        "worker2": "unknown",
    }


def test_section_compares_only_its_parts(declared, sick):
    found = report(declared, sick, Section.STORAGE)
    assert {name for node in found["nodes"] for name in node["facts"]} == {"disks", "mounts"}
    assert [node["verdict"] for node in found["nodes"]] == ["passed", "passed", "passed", "unknown"]


@pytest.fixture
def lab(inventory):
    """Return the same plan with containers as nodes and simulated GPUs."""
    cluster = inventory["all"]["vars"]["cluster"]
    cluster["simulated"] = ["gpu", "fabric"]
    inventory["all"]["vars"]["fabric"]["simulated"] = True
    cluster["scheduler"]["config_overrides"] = True
    return from_inventory(inventory)


def test_shared_hardware_is_skipped_but_simulated_gpus_compared(lab, facts, healthy):
    small = replace(facts, cpus=captured(Part.CPUS, "good-virtual"), memory=1000)
    found = report(lab, {**healthy, "worker0": CollectedFacts(small), "worker1": CollectedFacts(replace(facts, gpus=facts.gpus[:7]))})
    assert [(node["name"], [one["subject"] for one in node["differences"]]) for node in found["nodes"] if node["differences"]] == [
        ("worker1", ["GPUs"])
    ]
    assert found["simulated"] == ["cpus", "disks", "gpu_links", "gpus", "memory", "numa", "rdma"]
    assert found["totals"]["cpus"]["found"] is None
    assert "simulated; no evidence about hardware" in shown(found)


@pytest.mark.parametrize("section", Section)
@pytest.mark.parametrize("state", STATES)
def test_rendering_matches_golden_file(declared, request, goldens, section, state):
    text = shown(report(declared, request.getfixturevalue(state), section))
    goldens.check(f"hardware/{section}-{state}.txt", text)


def test_golden_files_cover_sections_and_states(goldens):
    goldens.check_names("hardware", [f"{section}-{state}.txt" for section in Section for state in STATES])


DECLARED = {"port_guid": "0x946dae0300f08210", "node_guid": "0x946dae0300f08210", "pci": "0000:1a:00.0", "mac": "94:6d:ae:f0:82:10"}
ADAPTERS = {
    "as declared": ({}, {}, "passed", []),
    "other port GUID": ({"port_guid": "0x946dae0300f0ffff"}, {}, "failed", ["mlx5_0 port GUID"]),
    "other node GUID": ({"node_guid": "0x946dae0300f0ffff"}, {}, "failed", ["mlx5_0 node GUID"]),
    "other PCI address": ({"pci": "0000:9a:00.0"}, {}, "failed", ["mlx5_0 PCI address"]),
    "other MAC address": ({"mac": "94:6d:ae:f0:ff:ff"}, {}, "failed", ["mlx5_0 MAC address"]),
    "second interface of the card": ({"mac": "94:6d:ae:f0:82:11"}, {"mac": "94:6d:ae:f0:82:11"}, "passed", []),
    "interface without an address": ({}, {"mac": None}, "unknown", []),
    "no interface": ({}, {"bus": "0000:ff:00.0"}, "unknown", []),
    "bond and VLAN above it": ({}, {"state": "up"}, "passed", []),
    "other PCI address, MAC not read": ({"pci": "0000:9a:00.0"}, {"mac": None}, "unknown", ["mlx5_0 PCI address"]),
}


@pytest.mark.parametrize("case", ADAPTERS)
def test_declared_adapters_are_compared(inventory, healthy, facts, case):
    declared, interface, verdict, subjects = ADAPTERS[case]
    inventory["all"]["hosts"]["worker0"]["node"]["adapters"] = {"mlx5_0": DECLARED | declared}
    card = replace(facts.interfaces[1], name="ens1", mac="94:6d:ae:f0:82:10", bus="0000:1a:00.0")
    above = [replace(card, name=name, bus="", driver="", mac="94:6d:ae:f0:20:01") for name in ("bond0", "bond0.100")]
    worker = CollectedFacts(replace(facts, interfaces=(*above, replace(card, **interface))))
    (node,) = [one for one in report(from_inventory(inventory), {**healthy, "worker0": worker})["nodes"] if one["name"] == "worker0"]
    assert (node["verdict"], [one["subject"] for one in node["differences"]]) == (verdict, subjects)
    assert ("the MAC address of mlx5_0 is declared" in node["unknown"].get("interfaces", "")) == (verdict == "unknown")


def test_declared_adapter_that_is_no_rail_must_exist(inventory, healthy, facts):
    inventory["all"]["hosts"]["worker0"]["node"]["adapters"] = {"mlx5_9": {"pci": "0000:ee:00.0"}}
    assert differing(report(from_inventory(inventory), healthy)) == {
        "worker0": [{"subject": "mlx5_9", "planned": "present", "found": "no such device"}]
    }


def test_storage_section_compares_no_adapters(inventory, healthy):
    inventory["all"]["hosts"]["worker0"]["node"]["adapters"] = {"mlx5_0": {"mac": "94:6d:ae:f0:ff:ff"}}
    found = report(from_inventory(inventory), healthy, Section.STORAGE)
    assert (found["verdict"], differing(found)) == ("passed", {})


UNREAD_PORT = {
    "state": ({"state": None}, []),
    "state, but not up physically": ({"state": None, "physical": "Polling"}, ["mlx5_0"]),
    "physical state": ({"physical": None}, []),
    "physical state, but down": ({"physical": None, "state": "Down"}, ["mlx5_0"]),
    "rate": ({"rate_gbps": None}, []),
    "link layer, but slow": ({"link_layer": None, "rate_gbps": 200.0}, ["mlx5_0 rate"]),
}


@pytest.mark.parametrize("case", UNREAD_PORT)
def test_unread_value_of_port_is_no_difference(declared, healthy, facts, case):
    cells, subjects = UNREAD_PORT[case]
    now = replace(facts, rdma=(replace(facts.rdma[0], **cells), *facts.rdma[1:]), unknown={Part.RDMA: "not read"})
    (node,) = [one for one in report(declared, {**healthy, "worker0": CollectedFacts(now)})["nodes"] if one["name"] == "worker0"]
    assert (node["verdict"], [one["subject"] for one in node["differences"]]) == ("unknown", subjects)


def test_unread_adapter_is_not_missing(declared, healthy, facts):
    now = replace(facts, rdma=facts.rdma[1:], unknown={Part.RDMA: "stat of IB device 'mlx5_0' failed"})
    (node,) = [one for one in report(declared, {**healthy, "worker0": CollectedFacts(now)})["nodes"] if one["name"] == "worker0"]
    assert (node["verdict"], node["differences"]) == ("unknown", [])
