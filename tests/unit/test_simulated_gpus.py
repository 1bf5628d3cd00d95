"""The stand-in for nvidia-smi and the tool that sets faults in it."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rackwright.checks.cluster.harness.tool_output import unread_values
from rackwright.checks.cluster.probes.driver_errors import Severity, parse_xids
from rackwright.checks.cluster.probes.gpu import GPUS, parse_gpus, parse_repairs

FILES = Path(__file__).parents[2] / "roles" / "gpu" / "files"


def load(name: str, file: str) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader(name, str(FILES / file))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


class Node:
    """A node with simulated GPUs: two words, as typed on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys

    def smi(self, *words: str, status: int = 0) -> list[str]:
        """Lines that nvidia-smi prints."""
        assert smi.main(list(words)) == status
        return self.capsys.readouterr().out.splitlines()

    def fault(self, *words: str, status: int = 0) -> str:
        """What rackwright-gpu-fault prints."""
        assert fault.main(list(words), str(self.folder)) == status
        out, err = self.capsys.readouterr()
        return str(out + err)


written = sys.dont_write_bytecode
gpus = load("simulated_gpus", "simulated_gpus.py")
smi = load("stand_in_nvidia_smi", "nvidia-smi")
fault = load("rackwright_gpu_fault", "rackwright-gpu-fault")
sys.dont_write_bytecode = written


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Node:
    plan = {
        "simulated": True,
        "product": "NVIDIA H100 80GB HBM3",
        "memory_mib": 81559,
        "driver": "580.173.02",
        "sm_clock_mhz": 1980,
        "uuids": [f"GPU-{index}" for index in range(8)],
    }
    (tmp_path / "gpus.json").write_text(json.dumps(plan))
    present = gpus.present
    monkeypatch.setattr(smi, "present", lambda: present(str(tmp_path)))
    return Node(tmp_path, capsys)


def test_the_list_reads_as_the_real_ones_does(node: Node) -> None:
    lines = node.smi("-L")
    assert len(lines) == 8
    assert lines[3] == "GPU 3: NVIDIA H100 80GB HBM3 (UUID: GPU-3)"


def test_a_query_has_header_and_units_unless_told_otherwise(node: Node) -> None:
    asked = "--query-gpu=index,name,memory.total,clocks.sm"
    assert node.smi(asked, "--format=csv")[:2] == [
        "index, name, memory.total [MiB], clocks.sm [MHz]",
        "0, NVIDIA H100 80GB HBM3, 81559 MiB, 1980 MHz",
    ]
    assert node.smi(asked, "--format=csv,noheader,nounits", "-i", "7") == ["7, NVIDIA H100 80GB HBM3, 81559, 1980"]


def test_an_unknown_field_is_refused_in_the_real_ones_words(node: Node) -> None:
    assert node.smi("--query-gpu=index,xid", "--format=csv", status=2)[0] == 'Field "xid" is not a valid field to query.'


def test_an_unknown_option_is_refused(node: Node) -> None:
    with pytest.raises(SystemExit):
        node.smi("topo", "-m")


def test_it_says_that_it_is_simulated(node: Node) -> None:
    assert "simulated" in node.smi()[0]
    assert "simulated" in node.smi("--version")[0]


@pytest.mark.parametrize(
    ("words", "query", "healthy", "faulty"),
    [
        (("ecc", "2"), "ecc.errors.uncorrected.volatile.total", "0", "1"),
        (("ecc", "2", "40"), "ecc.errors.uncorrected.aggregate.total", "0", "40"),
        (("clock", "2"), "clocks.sm", "1980", "345"),
        (("clock", "2", "600"), "clocks_event_reasons.hw_slowdown", "Not Active", "Active"),
        (("max-clock", "2"), "clocks.max.sm", "1980", "1410"),
        (("persistence", "2"), "persistence_mode", "Enabled", "Disabled"),
        (("remap", "2"), "remapped_rows.pending", "No", "Yes"),
        (("pcie", "2"), "pcie.link.width.current", "16", "8"),
        (("pcie", "2", "4"), "pcie.link.width.current", "16", "4"),
        (("driver", "550.54.15"), "driver_version", "580.173.02", "550.54.15"),
    ],
)
def test_a_fault_is_shown_where_the_real_one_would_show_it_and_cleared(
    node: Node, words: tuple[str, ...], query: str, healthy: str, faulty: str
) -> None:
    asked = (f"--query-gpu={query}", "--format=csv,noheader,nounits", "-i", "2")
    assert node.smi(*asked) == [healthy]
    node.fault(*words)
    assert node.smi(*asked) == [faulty]
    if words[0] != "driver":
        assert node.smi(f"--query-gpu={query}", "--format=csv,noheader,nounits", "-i", "3") == [healthy]
    node.fault("clear")
    assert node.smi(*asked) == [healthy]


def test_a_missing_gpu_is_not_listed_and_the_others_keep_uuid_and_address(node: Node) -> None:
    before = node.smi("--query-gpu=uuid,pci.bus_id", "--format=csv,noheader")
    node.fault("missing", "3")
    after = node.smi("--query-gpu=uuid,pci.bus_id", "--format=csv,noheader")
    assert after == [line for line in before if not line.startswith("GPU-3,")]
    for slot in range(8):
        node.fault("missing", str(slot))
    assert node.smi("-L", status=6) == ["No devices were found"]


def test_an_xid_stands_in_the_simulated_kernel_log_until_cleared(node: Node) -> None:
    node.fault("xid", "1", "63")
    log = node.folder / "gpu-kernel.log"
    assert log.read_text().startswith("NVRM: Xid (PCI:0000:20:00): 63,")
    assert node.smi("--query-gpu=pci.bus_id", "--format=csv,noheader", "-i", "1") == ["00000000:20:00.0"]
    node.fault("clear")
    assert not log.exists()


def test_reset_that_is_due_is_shown_in_the_long_form(node: Node) -> None:
    def due() -> list[object]:
        return [repair.needed for repair in parse_repairs("".join(f"{line}\n" for line in node.smi("-q")))]

    assert due() == ["nothing"] * 8
    node.fault("reset", "4")
    assert due() == ["nothing"] * 4 + ["Reset"] + ["nothing"] * 3
    node.fault("clear")
    assert due() == ["nothing"] * 8


def test_checks_find_nothing_wrong_with_simulated_gpus(node: Node) -> None:
    """The list with all fields that the checks ask for."""
    command = str(GPUS.command).partition(" 2>&1")[0].split()
    found = parse_gpus("".join(f"{line}\n" for line in node.smi(*command[1:])))
    assert len(found) == 8 and not list(unread_values([vars(gpu) for gpu in found]))


def test_error_of_an_nvswitch_stands_in_the_simulated_kernel_log(node: Node) -> None:
    node.fault("sxid", "1")
    (error,) = parse_xids((node.folder / "gpu-kernel.log").read_text())
    assert (error.of_nvswitch, error.severity) == (True, Severity.WARNING)
    node.fault("clear")
    assert not (node.folder / "gpu-kernel.log").exists()


def test_a_clock_held_down_and_a_lower_limit_are_two_things(node: Node) -> None:
    asked = ("--query-gpu=clocks.max.sm,clocks_event_reasons.active", "--format=csv,noheader,nounits", "-i", "0")
    node.fault("clock", "0")
    assert node.smi(*asked) == ["1980, 0x0000000000000008"]
    node.fault("clear")
    node.fault("max-clock", "0", "1200")
    assert node.smi(*asked) == ["1200, 0x0000000000000000"]


def test_faults_add_up_and_are_shown(node: Node) -> None:
    node.fault("ecc", "0")
    node.fault("ecc", "1", "2")
    node.fault("driver", "1.2")
    assert json.loads(node.fault("show")) == {"ecc": {"0": 1, "1": 2}, "driver": "1.2"}


def test_setting_a_fault_leaves_what_ansible_wrote_alone(node: Node) -> None:
    before = (node.folder / "gpus.json").read_bytes()
    node.fault("missing", "0")
    assert (node.folder / "gpus.json").read_bytes() == before


@pytest.mark.parametrize("words", [(), ("melt", "0"), ("ecc",), ("ecc", "8"), ("ecc", "-1"), ("ecc", "x"), ("driver",)])
def test_a_wrong_order_is_refused_and_changes_nothing(node: Node, words: tuple[str, ...]) -> None:
    assert node.fault(*words, status=2).strip()
    assert not (node.folder / "gpu-faults.json").exists()


def test_many_slots_have_addresses_of_their_own() -> None:
    addresses: list[Any] = [gpus.bus_address(slot) for slot in range(32)]
    assert len(set(addresses)) == 32
