"""Every parser of a tool's output with outputs that are in order. A test requires each function of the kind to be here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackwright.checks.acceptance.parsers import dcgm, fio, hpcc, nccl, nvidia_smi, perftest, rping
from rackwright.checks.cluster import probes
from rackwright.checks.cluster.harness.probe import PROBES, CommandOutput, Probe
from rackwright.checks.cluster.harness.tool_output import refusing
from rackwright.checks.hardware.commands import HARDWARE_PROBES
from rackwright.remote.programs.host_addresses import read_addresses
from rackwright.remote.programs.slurm_entries import ASSOCIATION, QUALITY, USER, read_administrators, read_entries
from rackwright.report.fabric.adapter_ports import read_node_ports

probes.load()
UNIT = Path(__file__).parents[1] / "unit"
FOLDERS = {
    "checks": UNIT / "captured",
    "hardware": UNIT / "hardware" / "captured",
    "acceptance": UNIT / "acceptance" / "captured",
    "report": UNIT / "report" / "captured",
    "drift": UNIT / "drift" / "captured",
}


@dataclass(frozen=True)
class Parser:
    """A parser as its callers use it, with one output."""

    name: str
    functions: tuple[tuple[str, str], ...]
    """Module and name of the functions that it replaces."""
    read: Callable[[str], Any]
    sample: str


def _name(function: Any) -> tuple[str, str]:
    inner = getattr(function, "__wrapped__", function)
    return (getattr(inner, "__module__", ""), getattr(inner, "__name__", ""))


def _answered(probe: Probe[Any]) -> Callable[[str], Any]:
    return lambda text: probe.read(CommandOutput(out=text, rc=min(probe.statuses)))


def _samples(kind: str, folder: str) -> list[tuple[str, str]]:
    files = sorted((FOLDERS[kind] / folder).glob("good*.txt"))
    return [(f"{kind}: {folder} {file.stem}", file.read_text(encoding="utf-8")) for file in files]


_ACCEPTANCE: dict[str, tuple[Callable[[str], Any], ...]] = {
    "nccl": (nccl.parse,),
    "perftest": (perftest.parse_bandwidth, perftest.parse_latency),
    "rping": (rping.parse_rping,),
    "dcgm": (dcgm.parse,),
    "nvidia-smi": (nvidia_smi.parse_health,),
    "nvlink": (nvidia_smi.parse_nvlinks,),
    "topo": (nvidia_smi.parse_topology,),
    "fio": (fio.parse,),
    "hpcc": (hpcc.parse,),
}

_REPORT: dict[str, tuple[Callable[[str], Any], ...]] = {"node-ports": (refusing("ibstat")(read_node_ports),)}
"""Readers of files that people pass to a command, whose ValueError the command reports; samples are beside those of the checks."""


def _entries(query: str) -> Callable[[str], Any]:
    """Return the reader of one listing of sacctmgr, with the others empty."""
    empty = {"associations": "|".join(ASSOCIATION) + "\n", "qos": "|".join(QUALITY) + "\n", "user": "|".join(USER) + "\n"}

    def read_listing(text: str) -> dict[str, str]:
        return read_entries({**empty, query: text})

    return refusing("sacctmgr")(read_listing)


_DRIFT: dict[str, tuple[Callable[[str], Any], ...]] = {
    "addresses": (refusing("ip")(read_addresses),),
    "associations": (_entries("associations"),),
    "qos": (_entries("qos"),),
    "users": (_entries("user"), refusing("sacctmgr")(read_administrators)),
}
"""Readers of the baseline's program, which names what they raise for a kind."""

PARTS = {
    ("rackwright.checks.cluster.probes.smoke", "parse_task"): "smoke",
    ("rackwright.checks.cluster.probes.slurm", "parse_gres"): "slurm-nodes",
    ("rackwright.checks.cluster.probes.pods", "parse_devices"): "pods",
    ("rackwright.checks.cluster.probes.sshd", "parse_known_hosts"): "host-keys",
    ("rackwright.checks.hardware.parsers", "parse_ibstat"): "rdma",
    ("rackwright.checks.hardware.parsers", "parse_sysfs"): "rdma",
    (
        "rackwright.checks.acceptance.evaluators.records",
        "parse",
    ): "reads answers of the project's own programs, and is tested with each phase",
    ("rackwright.checks.acceptance.evaluators.monitoring", "parse"): "reads answers of the project's own programs",
    (
        "rackwright.checks.acceptance.phases.kubernetes_health",
        "parse_claim",
    ): "reads an object of the API server, which its client has read as JSON",
    ("rackwright.checks.acceptance.phases.shared_file_system", "parse_visible_files"): "reads what the project's own task printed",
    ("rackwright.checks.acceptance.phases.shared_file_system", "parse_size"): "reads one line of stat",
}
"""Functions that read a part of an output, by the parser or reason for which they are not listed by themselves."""


def parsers() -> Iterator[Parser]:
    """Yield every parser once for each output that it reads in order."""
    for kind, table in (("checks", PROBES), ("hardware", HARDWARE_PROBES)):
        for name, probe in table.items():
            for label, sample in _samples(kind, str(name)):
                yield Parser(label, (_name(probe.parse),), _answered(probe), sample)
    for kind, table in (("acceptance", _ACCEPTANCE), ("report", _REPORT), ("drift", _DRIFT)):
        yield from _read_by(kind, table)


def _read_by(kind: str, table: dict[str, tuple[Callable[[str], Any], ...]]) -> Iterator[Parser]:
    for folder, functions in table.items():
        for label, sample in _samples(kind, folder):
            for function in functions:
                yield Parser(f"{label} {_name(function)[1]}", (_name(function),), function, sample)
