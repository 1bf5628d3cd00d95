"""Verdicts on the health of GPUs, from the output of their driver and DCGM."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rackwright.checks.acceptance.parsers.dcgm import BAD, Status, Test
from rackwright.checks.acceptance.parsers.nvidia_smi import Health
from rackwright.checks.acceptance.phase import Finding, compared, skipped, unknown
from rackwright.checks.cluster.harness.tool_output import UnreadableValue, read_values
from rackwright.checks.cluster.probes.nvidia_smi import GpuList
from rackwright.checks.cluster.probes.nvlink import down_links
from rackwright.report.verdict import SkipReason, Verdict

Gpus = GpuList[Health]


def _named(gpus: Gpus, of: Callable[[Health], Any]) -> dict[str, Any]:
    """Return the fault of each GPU, or why it is unknown; GPUs without a fault are left out."""
    found = {gpu.label: of(gpu) for gpu in gpus}
    return {label: value for label, value in found.items() if isinstance(value, UnreadableValue) or value}


def _of_all(check: str, node: str, gpus: Gpus, planned: int, found: Mapping[str, Any]) -> Finding:
    """Return failed if a GPU has a fault, unknown if none has and not every planned GPU was listed."""
    finding = compared(check, node, found, {})
    if finding.verdict is Verdict.PASSED and len(gpus) != planned:
        return unknown(check, node, f"{len(gpus)} of {planned} GPUs answered")
    return finding


def count(check: str, node: str, gpus: Gpus, planned: int) -> Finding:
    """Verify that a job with all GPUs sees all of them."""
    return compared(check, node, gpus.responding(planned), planned)


def memory_errors(check: str, node: str, gpus: Gpus, planned: int) -> Finding:
    """Report uncorrected errors, rows that wait for a reset to be remapped, rows that could not be, and a corrupted infoROM.

    Unknown where ECC is off, or not every GPU is listed. Skipped for a model without ECC, as GeForce cards.
    """
    found = _named(gpus, _memory) | {f"GPU {place} infoROM": "corrupted" for place in gpus.corrupted}
    if len(gpus) == planned and not found and not any(gpu.has_ecc for gpu in gpus):
        return skipped(check, node, SkipReason.NOT_IN_PLAN)
    blind = [gpu.label for gpu in gpus if gpu.uncorrected is None]
    if (blind or not gpus) and not read_values(found.values()):
        return unknown(check, node, f"ECC is off on {len(blind)} of {planned} GPUs, or they have none")
    return compared(check, node, found, {})


def _memory(gpu: Health) -> Any:
    """Return the faults of a GPU's memory, or why they are unknown."""
    states = {"uncorrected": gpu.uncorrected, "pending": gpu.remap_pending, "failed": gpu.remap_failed, "requires a reset": gpu.needs_reset}
    faults = [word for word, value in states.items() if not isinstance(value, UnreadableValue) and value]
    return faults or next((value for value in states.values() if isinstance(value, UnreadableValue)), None)


def clocks(check: str, node: str, gpus: Gpus, planned: int) -> Finding:
    """Verify that all GPUs have one clock limit, and no thermal or brake signal that holds a clock down."""
    fastest = max(read_values(gpu.max_clock_mhz for gpu in gpus), default=0)
    return _of_all(check, node, gpus, planned, _named(gpus, lambda gpu: _clock(gpu, fastest)))


def _clock(gpu: Health, fastest: int) -> Any:
    if not isinstance(gpu.clock_faults, UnreadableValue) and gpu.clock_faults:
        return ", ".join(gpu.clock_faults)
    if not isinstance(gpu.max_clock_mhz, UnreadableValue) and gpu.max_clock_mhz < fastest:
        return f"{gpu.max_clock_mhz} MHz"
    return next((value for value in (gpu.clock_faults, gpu.max_clock_mhz) if isinstance(value, UnreadableValue)), None)


def pcie(check: str, node: str, gpus: Gpus, planned: int) -> Finding:
    """Verify that each GPU has as many lanes as card and slot. The generation is left out: it falls when a GPU idles."""
    if any(gpu.pcie_width is None for gpu in gpus):
        return unknown(check, node, "not every GPU reports the width of its PCIe link")
    return _of_all(check, node, gpus, planned, _named(gpus, _lanes))


def _lanes(gpu: Health) -> Any:
    for value in (gpu.pcie_width, gpu.pcie_width_max):
        if isinstance(value, UnreadableValue):
            return value
    return f"x{gpu.pcie_width} of x{gpu.pcie_width_max}" if gpu.pcie_width != gpu.pcie_width_max else ""


def provided_pcie(check: str, node: str, gpus: Gpus, planned: int) -> Finding:
    """Verify the lanes of GPUs in a virtual machine, whose driver does not see the slots: a GPU has as many as the others of the node."""
    known = read_values(gpu.pcie_width for gpu in gpus)
    if len(known) == len(gpus) == planned and len(set(known)) == 1 and known[0]:
        return compared(check, node, f"x{known[0]} on every GPU of the virtual machine", "as many lanes on every GPU", holds=True)
    return pcie(check, node, gpus, planned)


CHECKS: Final = {
    "count_matches_plan": count,
    "no_ecc_errors": memory_errors,
    "not_throttled": clocks,
    "pcie_links_are_wide": pcie,
}


def nvlinks(check: str, node: str, links: Mapping[int, tuple[float | UnreadableValue, ...]], planned: int) -> Finding:
    """Verify that every link of every GPU is up, and that all GPUs have as many."""
    found = down_links(links)
    finding = compared(check, node, found, {})
    if finding.verdict is Verdict.PASSED and len(links) != planned:
        return unknown(check, node, f"{len(links)} of {planned} GPUs listed their links")
    return finding


_CATEGORIES: Final = frozenset({"Deployment", "Integration", "Hardware", "Stress"})
"""Categories of level 3, in the JSON and in the table of DCGM 3 and 4."""
_OF_OTHER_LEVELS: Final = re.compile(r"(memtest|eud|cpu eud|pulse|nvbandwidth|context create|nccl)( tests?)?", re.IGNORECASE)
"""Tests that level 3 lists as skipped on a healthy node: those of level 4, and those that DCGM has for some products only (docs.nvidia.com,
dcgmi diag and Diagnostic Plugins, 2026)."""


def diagnosis(check: str, node: str, tests: Sequence[Test]) -> Finding:
    """Verify that no test failed or warned. A skipped test of level 3 proves nothing: unknown, unless another failed."""
    bad = sorted(
        {
            f"{test.name} GPU {test.gpu if test.gpu is not None else '?'}: {test.message or test.status.value}"
            for test in tests
            if test.status in BAD
        }
    )
    left = sorted({_left_out(test) for test in tests if test.status in (Status.SKIP, Status.NOT_RUN, Status.UNREAD)} - {""})
    if left and not bad:
        return unknown(check, node, f"left out by dcgmi diag: {', '.join(left)}")
    return compared(check, node, bad, [])


def _left_out(test: Test) -> str:
    """Return the name of a test that did not run, with the reason; empty if it does not belong to level 3."""
    by_design = test.status is not Status.UNREAD and not test.message and _OF_OTHER_LEVELS.fullmatch(test.name.replace("_", " ").strip())
    return "" if by_design else f"{test.name} ({test.message})" if test.message else test.name


def whole_diagnosis(check: str, node: str, tests: Sequence[Test], planned: int, status: int) -> Finding:
    """Verify a run of level 3 on all GPUs of a node: one that skipped a category or a GPU, or ended with an error, passes for unknown."""
    finding = diagnosis(check, node, tests)
    if finding.verdict is not Verdict.PASSED:
        return finding
    if missing := sorted(_CATEGORIES - {test.category for test in tests}):
        return unknown(check, node, f"dcgmi diag has no tests of the categories {', '.join(missing)}")
    for name in sorted({test.name for test in tests if test.category != "Deployment"}):
        gpus = {test.gpu for test in tests if test.name == name and test.status is Status.PASS}
        if gpus and None not in gpus and len(gpus) < planned:
            return unknown(check, node, f"dcgmi diag ran {name} on {len(gpus)} of {planned} GPUs")
    return unknown(check, node, f"dcgmi diag ended with status {status}, and no test reports why") if status else finding
