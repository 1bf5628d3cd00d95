"""Answers of healthy and faulty nodes are parsed, broken ones are refused."""

from __future__ import annotations

import doctest

import pytest

from rackwright.checks.cluster.harness.probe import PROBES, CommandOutput
from rackwright.checks.hardware import job, parsers
from rackwright.checks.hardware.commands import HARDWARE_PROBES
from rackwright.errors import UndeterminedError
from rackwright.report.hardware import rows
from rackwright.report.hardware.facts import Part

from .conftest import FOLDER, captured


def cases(prefix):
    """Return every captured file with this prefix, with its part."""
    return [(Part(file.parent.name), file.stem) for file in sorted(FOLDER.glob(f"*/{prefix}*.txt"))]


@pytest.mark.parametrize(("part", "case"), cases("good"))
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


def test_mounts_with_size_are_read():
    assert [(mount.point, mount.type) for mount in captured(Part.MOUNTS)] == [("/", "ext4"), ("/mnt/sharedfs", "fuse.mfs")]


def test_driver_failure_is_no_answer():
    with pytest.raises(UndeterminedError, match="is not installed"):
        HARDWARE_PROBES[Part.GPUS].read(CommandOutput(rc=127, err="sh: 1: nvidia-smi: not found"))
    assert HARDWARE_PROBES[Part.GPUS].read(CommandOutput(rc=6, out="No devices were found\n")) == ()


@pytest.mark.parametrize("module", [parsers, rows, job])
def test_docstring_examples_hold(module):
    failed, tried = doctest.testmod(module)
    assert (failed, bool(tried)) == (0, True)
