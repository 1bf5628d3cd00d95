"""Parsers of tool output: good, slow, failed and truncated. A partial answer is refused; it would hide broken machines."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest
from support.rows import each_row

from rackwright.checks.acceptance.parsers import dcgm, fio, hpcc, nccl, nccl_log, nvidia_smi, perftest, rping
from rackwright.errors import UndeterminedError
from rackwright.yaml_loader import load_yaml

CAPTURED = Path(__file__).with_name("captured")
BROKEN = ("failed", "truncated", "reset", "joined")
SPEAKING = {
    ("nvidia-smi", "failed"),
    ("dcgm", "failed-v4"),
    ("dcgm", "failed-v3"),
    ("dcgm", "failed-table"),
    ("dcgm", "failed-table-v4"),
    ("dcgm", "failed-table-section"),
    ("nvidia-smi", "failed-ecc"),
    ("hpcc", "failed"),
    ("nvidia-smi", "reset"),
}
"""Tools that report a failure of the machine, not of themselves."""
PARTLY = {("nvidia-smi", "truncated")}
"""Tools of which all complete values are read (tests/unit/probes/test_gpu_rows.py)."""


def _perftest(text: str) -> object:
    return perftest.parse_latency(text) if "Latency" in text else perftest.parse_bandwidth(text)


PARSERS = {
    "nccl": nccl.parse,
    "perftest": _perftest,
    "dcgm": dcgm.parse,
    "nvidia-smi": nvidia_smi.parse_health,
    "nvlink": nvidia_smi.parse_nvlinks,
    "topo": nvidia_smi.parse_topology,
    "fio": fio.parse,
    "hpcc": hpcc.parse,
    "rping": rping.parse_rping,
}
LISTS = {"nvidia-smi", "nvlink"}
TEXTS = sorted((file.parent.name, file.stem) for file in CAPTURED.glob("*/*.txt"))


def read(tool: str, name: str) -> str:
    """Return a text by tool and name."""
    return (CAPTURED / tool / f"{name}.txt").read_text(encoding="utf-8")


@each_row(("tool", "name"), TEXTS)
def test_captured_text_is_read_or_refused(tool: str, name: str) -> None:
    """Failed and truncated output is refused."""
    if name.startswith(BROKEN) and (tool, name) not in SPEAKING | PARTLY:
        with pytest.raises(UndeterminedError):
            PARSERS[tool](read(tool, name))
    else:
        assert PARSERS[tool](read(tool, name)) is not None


@pytest.mark.parametrize("tool", PARSERS)
def test_every_parser_refuses_empty_text(tool: str) -> None:
    """Every parser also has a good, a broken and a truncated text."""
    with pytest.raises(UndeterminedError):
        PARSERS[tool]("")
    names = [name for folder, name in TEXTS if folder == tool]
    assert any(name.startswith("good") for name in names)
    assert any(name.startswith("failed") for name in names)
    assert any(name.startswith("truncated") for name in names)


@each_row(("tool", "name"), [each for each in TEXTS if each[1].startswith("good")])
def test_truncated_text_never_changes_result(tool: str, name: str) -> None:
    """Truncated in its second half, a text is refused or gives the same result; a list without an end mark may be shorter."""
    text = read(tool, name)
    whole = PARSERS[tool](text)
    for cut in range(len(text) // 2, len(text), max(1, len(text) // 200)):
        try:
            part = PARSERS[tool](text[:cut])
        except UndeterminedError:
            continue
        if tool in LISTS:
            assert len(part) <= len(whole)
        else:
            assert part == whole, f"cut at {cut} of {len(text)}"


def test_every_captured_text_names_its_source() -> None:
    """By folder; texts that a machine printed differ from texts that follow a source."""
    sources = load_yaml((CAPTURED / "SOURCES.yml").read_text(encoding="utf-8"))
    assert set(sources) == {tool for tool, _ in TEXTS} == set(PARSERS)
    assert all(set(source) <= {"written after", "captured"} and all(source.values()) for source in sources.values())


def test_nccl_parser_reads_transports() -> None:
    """Bandwidth, correctness, transport, GPUDirect, NVLink SHARP."""
    one = nccl.parse(read("nccl", "good-1-node"))
    assert (len(one.devices), one.largest.size_bytes, one.wrong, one.nvls, one.version) == (8, 2**34, 0, True, "2.27.7")
    assert one.largest.busbw_gb_s == pytest.approx(480, abs=1)
    assert {each.transport for each in one.connections} == {nccl_log.Transport.NVLINK}
    two = nccl.parse(read("nccl", "good-2-nodes"))
    assert {device.host for device in two.devices} == {"worker0", "worker1"}
    assert two.networks == {"IB"}
    assert all(each.direct for each in two.connections if each.transport is nccl_log.Transport.INFINIBAND)
    assert nccl.parse(read("nccl", "sockets-2-nodes")).networks == {"Socket"}
    assert not any(each.direct for each in nccl.parse(read("nccl", "host-memory-2-nodes")).connections)
    assert nccl.parse(read("nccl", "good-2-nodes-efa")).networks == {"Libfabric"}
    assert nccl.parse(read("nccl", "wrong-1-node")).wrong == 12
    assert nccl.parse(read("nccl", "unchecked-1-node")).wrong is None
    assert nccl.parse(read("nccl", "silent-2-nodes")).connections == ()


def test_nccl_parser_reads_abort_reason() -> None:
    """The first line that names a reason."""
    with pytest.raises(UndeterminedError, match="status=12"):
        nccl.parse(read("nccl", "failed-2-nodes"))
    with pytest.raises(UndeterminedError, match="20 sizes, no summary"):
        nccl.parse(read("nccl", "truncated-1-node"))


def test_perftest_parser_converts_to_gigabits() -> None:
    """perftest counts 2^20 bytes as MB."""
    assert perftest.parse_bandwidth(read("perftest", "good-bw")) == perftest.Bandwidth("mlx5_3", "IB", 4096, 2**20, 393.24, False)
    assert perftest.parse_bandwidth(read("perftest", "good-bw-mib")).average_gbit_s == pytest.approx(393.24, abs=0.01)
    assert perftest.parse_bandwidth(read("perftest", "both-ways-bw")).both_ways
    assert perftest.parse_latency(read("perftest", "good-lat")) == perftest.Latency("mlx5_3", "IB", 2, 1.92, 2.31)
    with pytest.raises(UndeterminedError, match="Couldn't connect"):
        perftest.parse_bandwidth(read("perftest", "failed-connect"))
    with pytest.raises(UndeterminedError, match="Completion with error"):
        perftest.parse_bandwidth(read("perftest", "failed-completion"))


def test_dcgm_parser_names_failed_gpu() -> None:
    """In JSON of versions 3 and 4, and in the table of either."""

    def failed(name: str) -> list[tuple[str, int | None]]:
        return [(test.name, test.gpu) for test in dcgm.parse(read("dcgm", name)) if test.status is dcgm.Status.FAIL]

    assert failed("good-v4") == failed("good-table") == []
    assert failed("failed-v4") == [("diagnostic", 5)]
    assert failed("failed-v3") == [("GPU Memory", 3)]
    assert failed("failed-table") == [("GPU Memory", 0)]
    assert failed("failed-table-v4") == [("memory", None), ("memory", 1)]
    assert failed("failed-table-section") == [("Deployment", None)]  # an error in place of the section's tests
    (said,) = [test.message for test in dcgm.parse(read("dcgm", "failed-table")) if test.status is dcgm.Status.FAIL]
    assert said.startswith("GPU 0 Thermal violations totaling 13.3 seconds started at 9.7 seconds into the test for GPU 0 Verify")
    (skipped,) = [test.gpu for test in dcgm.parse(read("dcgm", "failed-v3")) if test.status is dcgm.Status.SKIP]
    assert skipped == 2


def test_gpus_are_read_in_any_field_order() -> None:
    """Missing counters are missing, not zero."""
    good = nvidia_smi.parse_health(read("nvidia-smi", "good"))
    assert len(good) == 8 and good[3].pcie_width == 16 and good[3].uncorrected == 0 and good[3].remap_pending is False
    assert nvidia_smi.parse_health(read("nvidia-smi", "without-ecc"))[0].uncorrected is None
    slow = nvidia_smi.parse_health(read("nvidia-smi", "slow"))
    assert (slow[2].clock_faults, slow[6].pcie_width) == (("hardware slowdown",), 8)
    assert len(nvidia_smi.parse_health(read("nvidia-smi", "none"))) == 0
    turned = "".join(", ".join(reversed(line.split(", "))) + "\n" for line in read("nvidia-smi", "good").splitlines())
    assert nvidia_smi.parse_health(turned) == good
    with pytest.raises(UndeterminedError, match="rows without titles"):
        nvidia_smi.parse_health(read("nvidia-smi", "good").partition("\n")[2])


def test_topology_and_nvlinks_are_read() -> None:
    """Connections, device names, NUMA nodes."""
    good = nvidia_smi.parse_topology(read("topo", "good"))
    assert good.paths["GPU0", "GPU7"] == "NV18" and good.paths["GPU5", "NIC5"] == "PIX" and good.paths["GPU0", "NIC7"] == "SYS"
    assert good.nics["NIC3"] == "mlx5_3" and (good.numa["GPU0"], good.numa["GPU7"]) == ("0", "1")
    assert len(good.names("GPU")) == 8
    assert nvidia_smi.parse_nvlinks(read("nvlink", "slow"))[4][11] == 0


def test_storage_and_cpu_tools_are_read() -> None:
    """Totals of all jobs; HPCC's summary beside the tests' own lines."""
    written = fio.parse(read("fio", "good"))
    assert [(each.direction, each.bytes_moved) for each in written.streams] == [("write", 2 * 64 * 2**20)]
    assert written.operations_s("write") > 1 and written.errors == {}
    good = hpcc.parse(read("hpcc", "good"))
    assert (good.right, good.failure) == (True, "")
    assert good.figures["HPL_Tflops"] == 0.00485947 and good.figures["StarSTREAM_Triad"] == 61.8174
    assert hpcc.parse(read("hpcc", "failed")).right is False


def test_docstring_examples_hold() -> None:
    """Run the `>>>` lines of parsers."""
    for name in ("nccl", "perftest", "nccl_log", "dcgm", "nvidia_smi", "fio", "hpcc"):
        assert not doctest.testmod(importlib.import_module(f"rackwright.checks.acceptance.parsers.{name}")).failed, name
