"""Answers of healthy and faulty nodes are parsed, broken ones are refused."""

from __future__ import annotations

import doctest

import pytest
from support.rows import each_row

from rackwright.checks.cluster.harness.probe import PROBES, CommandOutput
from rackwright.checks.hardware import identity, job, parsers
from rackwright.checks.hardware.commands import HARDWARE_PROBES
from rackwright.errors import UndeterminedError
from rackwright.report.hardware import rows
from rackwright.report.hardware.facts import Part

from .conftest import FOLDER, captured


def cases(prefix):
    """Return every captured file with this prefix, with its part."""
    return [(Part(file.parent.name), file.stem) for file in sorted(FOLDER.glob(f"*/{prefix}*.txt"))]


@each_row(("part", "case"), cases("good"))
def test_good_answers_are_read(part, case):
    captured(part, case)


@pytest.mark.parametrize(("part", "case"), cases("broken"))
def test_broken_answers_are_refused(part, case):
    with pytest.raises(UndeterminedError):
        captured(part, case)


def test_every_part_has_question_and_captured_answers():
    assert set(HARDWARE_PROBES) == set(Part) == {part for part, _ in cases("good")} == {part for part, _ in cases("broken")}


def test_check_runs_skip_hardware_questions():
    ids = [id(probe) for probe in PROBES.values()]
    assert not [question for question in HARDWARE_PROBES.values() if id(question) in ids]


def test_cpus_of_servers_virtual_machines_and_arm():
    found = captured(Part.CPUS, "good-two-sockets")
    assert (found.model, found.total, found.sockets, found.cores_per_socket, found.threads_per_core) == (
        "Intel(R) Xeon(R) Platinum 8468",
        128,
        2,
        32,
        2,
    )
    assert captured(Part.CPUS, "good-virtual").total == 2
    arm = captured(Part.CPUS, "good-arm")
    assert (arm.total, arm.sockets, arm.cores_per_socket) == (72, None, 72)


@pytest.mark.parametrize("case", ["good-nvswitch", "good-spaces"])
def test_links_of_nvswitch_node_are_read(case):
    links = captured(Part.GPU_LINKS, case)
    assert len(links.paths) == 8
    assert {path for paths in links.paths.values() for peer, path in paths.items() if peer.startswith("GPU")} == {"NV18"}
    assert [rows.nearest_cards(links.paths[f"GPU{index}"]) for index in range(8)] == [f"mlx5_{index} PIX" for index in range(8)]
    assert [links.numa[f"GPU{index}"] for index in range(8)] == ["0"] * 4 + ["1"] * 4


def test_links_of_pcie_node_differ():
    paths = captured(Part.GPU_LINKS, "good-pcie").paths
    assert (paths["GPU0"]["GPU1"], paths["GPU0"]["GPU2"], paths["GPU0"]["GPU7"]) == ("PIX", "NODE", "SYS")
    assert rows.nearest_cards(paths["GPU0"]) == "-"


def test_single_gpu_has_no_links():
    links = captured(Part.GPU_LINKS, "good-one")
    assert (links.paths, links.numa) == ({"GPU0": {}}, {"GPU0": "0"})


def test_ports_down_slow_or_ethernet_are_read():
    up, down, slow, ethernet = captured(Part.RDMA, "good-down")
    assert (up.state, up.physical, up.rate_gbps, up.numa) == ("Active", "LinkUp", 400.0, 0)
    assert (down.state, down.physical, down.numa) == ("Down", "Polling", None)
    assert (slow.rate_gbps, ethernet.link_layer) == (200.0, "Ethernet")


def test_simulated_ports_have_no_rate():
    ports = captured(Part.RDMA, "good-simulated")
    assert {(port.state, port.physical, port.rate_gbps, port.link_layer) for port in ports} == {("Active", "LinkUp", None, "InfiniBand")}
    assert [port.device for port in ports] == ["mlx5_0", "mlx5_1"]
    assert {port.state for port in captured(Part.RDMA, "good-unplugged")} == {"Active", "Down"}


def test_loopback_is_skipped_and_rate_may_be_missing():
    found = {one.name: one for one in captured(Part.INTERFACES)}
    assert set(found) == {"bond0", "ens1f0np0", "ens1f1np1", "ib0"}
    assert (found["ib0"].rate_gbps, found["ib0"].link_layer, found["bond0"].rate_gbps) == (400.0, "infiniband", None)


def test_empty_readers_and_zero_size_disks_are_skipped():
    assert [(disk.name, disk.model, disk.rotational) for disk in captured(Part.DISKS)] == [
        ("nvme0n1", "SAMSUNG MZQL23T8HCLS-00A07", False),
        ("sda", "INTEL SSDSC2KB480G8", False),
    ]
    assert captured(Part.DISKS, "good-older")[0].rotational


def test_identities_are_read():
    assert captured(Part.GPUS)[0].uuid.startswith("GPU-")
    port = captured(Part.RDMA)[0]
    assert (port.node_guid, port.guid, port.bus) == (port.guid, port.node_guid, "0000:1a:00.0")
    assert port.guid.startswith("0x946dae0300f0")
    simulated = captured(Part.RDMA, "good-simulated")[1]
    assert (simulated.node_guid, simulated.guid) == ("0xa088c20300001100", "0xa088c20300001101")
    found = {one.name: (one.mac, one.bus) for one in captured(Part.INTERFACES)}
    assert found["ens1f0np0"] == ("94:6d:ae:f0:20:01", "0000:4b:00.0")
    assert found["ib0"][0].endswith("94:6d:ae:03:00:f0:a6:10")
    assert captured(Part.DISKS)[1].ids == ("ata-INTEL_SSDSC2KB480G8_PHYF9391007V480BGN", "wwn-0x55cd2e4151a30177")
    assert captured(Part.DISKS, "good-without-names")[0].ids == ()


def test_virtual_function_and_efa_have_no_node_guid():
    bond, virtual, efa = captured(Part.RDMA, "good-roce")
    assert (bond.node_guid, bond.guid) == ("0xc470bd03007251ee", "0x0a259dfffe7903b8")
    assert (virtual.node_guid, virtual.guid, efa.node_guid) == (None, None, None)
    assert captured(Part.RDMA, "good-roce").why == ""


@pytest.mark.parametrize(
    ("part", "case", "cell", "subject"),
    [
        (Part.GPUS, "good", "GPU-", "GPU 0: uuid"),
        (Part.RDMA, "good", "946d:ae03:00f0:", "the node GUID of mlx5_0"),
        (Part.RDMA, "good-simulated", "Node GUID: 0x", "the node GUID of mlx5_0"),
        (Part.INTERFACES, "good", "|94:6d:ae:f0:20:01|0000:4b", "the MAC address of ens1f0np0"),
    ],
)
def test_unreadable_identity_is_unknown_with_reason(part, case, cell, subject):
    """The device is still listed, and the line is quoted."""
    text = (FOLDER / part / f"{case}.txt").read_text(encoding="utf-8")
    whole = captured(part, case)
    found = HARDWARE_PROBES[part].read(CommandOutput(out=text.replace(cell, cell.replace(cell.strip("|")[:2], "ERR"), 1)))
    assert len(found) == len(whole)
    assert subject.split(":")[0] in found.why, found.why


def test_names_of_disks_cut_short_are_unknown():
    text = (FOLDER / Part.DISKS / "good.txt").read_text(encoding="utf-8")
    found = HARDWARE_PROBES[Part.DISKS].read(CommandOutput(out=text.removesuffix("end|\n")))
    assert "cut short" in found.why


def test_mounts_with_size_are_read():
    assert [(mount.point, mount.type) for mount in captured(Part.MOUNTS)] == [("/", "ext4"), ("/mnt/sharedfs", "fuse.mfs")]


def test_driver_failure_is_no_answer():
    with pytest.raises(UndeterminedError, match="is not installed"):
        HARDWARE_PROBES[Part.GPUS].read(CommandOutput(rc=127, err="sh: 1: nvidia-smi: not found"))
    assert HARDWARE_PROBES[Part.GPUS].read(CommandOutput(rc=6, out="No devices were found\n")) == ()


@pytest.mark.parametrize("module", [identity, parsers, rows, job])
def test_docstring_examples_hold(module):
    failed, tried = doctest.testmod(module)
    assert (failed, bool(tried)) == (0, True)
