"""Whether GPUs are in order, from what their driver and DCGM say of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from acceptance.parsers.dcgm import Status, Test
from acceptance.parsers.nvidia_smi import Health
from acceptance.phase import Finding, compared, unknown


def _named(gpus: Sequence[Health], of: Callable[[Health], Any]) -> dict[str, Any]:
    """What is wrong, by GPU; nothing where nothing is."""
    return {f"GPU {gpu.index}": found for gpu in gpus if (found := of(gpu))}


def count(check: str, node: str, gpus: Sequence[Health], planned: int) -> Finding:
    """A job that was given all GPUs sees all of them."""
    return compared(check, node, len(gpus), planned)


def memory_errors(check: str, node: str, gpus: Sequence[Health], planned: int) -> Finding:
    """Uncorrected errors, rows that wait for a reset to be remapped, rows that could not be. Unknown where there is no such counter."""
    blind = [gpu.index for gpu in gpus if gpu.uncorrected is None]
    if blind or not gpus:
        return unknown(check, node, f"ECC is off on {len(blind)} of {planned} GPUs, or they have none")
    found = _named(
        gpus,
        lambda gpu: [
            *(["uncorrected"] if gpu.uncorrected else []),
            *(["pending"] if gpu.remap_pending else []),
            *(["failed"] if gpu.remap_failed else []),
        ],
    )
    return compared(check, node, found, {})


def clocks(check: str, node: str, gpus: Sequence[Health], planned: int) -> Finding:
    """One limit for all, and no heat or brake signal that holds a clock down."""
    fastest = max((gpu.max_clock_mhz for gpu in gpus), default=0)
    found = _named(
        gpus,
        lambda gpu: ", ".join(gpu.clock_faults) or (f"{gpu.max_clock_mhz} MHz" if gpu.max_clock_mhz < fastest else ""),
    )
    return compared(check, node, found, {}) if len(gpus) == planned else unknown(check, node, f"{len(gpus)} of {planned} GPUs answered")


def pcie(check: str, node: str, gpus: Sequence[Health], planned: int) -> Finding:
    """As many lanes as card and slot have. The generation is left out: it falls when a GPU idles."""
    if any(gpu.pcie_width is None for gpu in gpus) or len(gpus) != planned:
        return unknown(check, node, "not every GPU says how wide its link is")
    return compared(
        check,
        node,
        _named(gpus, lambda gpu: f"x{gpu.pcie_width} of x{gpu.pcie_width_most}" if gpu.pcie_width != gpu.pcie_width_most else ""),
        {},
    )


CHECKS: Final = {
    "count_matches_plan": count,
    "no_memory_errors": memory_errors,
    "nothing_holds_clocks_down": clocks,
    "pcie_links_are_wide": pcie,
}


def nvlinks(check: str, node: str, links: Mapping[int, tuple[float, ...]], planned: int) -> Finding:
    """Every link of every GPU is up, and all GPUs have as many."""
    if len(links) != planned:
        return unknown(check, node, f"{len(links)} of {planned} GPUs listed their links")
    most = max(len(each) for each in links.values())
    found = {f"GPU {gpu}": f"{sum(map(bool, each))} of {most}" for gpu, each in links.items() if sum(map(bool, each)) != most or not most}
    return compared(check, node, found, {})


def diagnosis(check: str, node: str, tests: Sequence[Test]) -> Finding:
    """No test failed or warned. A test that was skipped or not run proves nothing: unknown, unless another failed."""
    bad = sorted(
        {
            f"{test.name} GPU {test.gpu if test.gpu is not None else '?'}: {test.said or test.status.value}"
            for test in tests
            if test.status in (Status.FAIL, Status.WARN)
        }
    )
    left = sorted({test.name for test in tests if test.status in (Status.SKIP, Status.NOT_RUN)})
    if left and not bad:
        return unknown(check, node, f"left out by dcgmi diag: {', '.join(left)}")
    return compared(check, node, bad, [])
