"""Output of `nvidia-smi`: a query with its header line, `topo -m`. `nvlink --status` is parsed by checks/cluster/probes/nvlink.py."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.tool_output import (
    Row,
    UnreadableValue,
    flag,
    hexadecimal,
    integer,
    lines_of,
    quoted,
    release,
    words,
)
from rackwright.checks.cluster.probes.gpu import clock_faults
from rackwright.checks.cluster.probes.gpu_topology import read_matrix
from rackwright.checks.cluster.probes.nvidia_smi import GpuList, needs_reset, read_table
from rackwright.checks.cluster.probes.nvlink import parse_nvlinks
from rackwright.errors import UndeterminedError

__all__ = ["Health", "Topology", "parse_health", "parse_nvlinks", "parse_topology"]


@dataclass(frozen=True, slots=True)
class Health:
    """One GPU. None if the driver reports that it has no such counter, UnreadableValue if the value was not read."""

    label: str
    product: str | UnreadableValue
    memory_mib: int | UnreadableValue
    driver: str | UnreadableValue
    has_ecc: bool | UnreadableValue
    """Whether the memory has ECC, switched on or off; True also where the driver does not report the mode. GeForce cards with ECC are
    delivered with it switched off, and count as cards without."""
    uncorrected: int | UnreadableValue | None
    """Uncorrected ECC errors since the driver was loaded."""
    remap_pending: bool | UnreadableValue | None
    remap_failed: bool | UnreadableValue | None
    max_clock_mhz: int | UnreadableValue
    clock_faults: tuple[str, ...] | UnreadableValue
    """Reasons that hold the clock down and are faults."""
    pcie_generation: int | UnreadableValue | None
    pcie_generation_max: int | UnreadableValue | None
    pcie_width: int | UnreadableValue | None
    pcie_width_max: int | UnreadableValue | None
    needs_reset: bool
    """Whether the driver prints "GPU requires reset" in place of a value."""


def parse_health(text: str) -> GpuList[Health]:
    """Return the rows of `--query-gpu=… --format=csv,nounits`, in any order of the fields. Raises UndeterminedError if no GPU is listed."""
    titles = re.search(r"^(.*,\s*)?index\s*(,|$)", text, re.MULTILINE)
    if not titles and re.search(r"^\s*\d+\s*,", text, re.MULTILINE):
        raise UndeterminedError(f'nvidia-smi printed rows without titles: "{quoted(lines_of(text)[0])}"')
    try:
        return read_table(text, ("index",), _health)
    except ValueError as error:
        raise UndeterminedError(f"nvidia-smi did not list GPUs: {error}") from None


def _has_ecc(row: Row) -> bool | UnreadableValue:
    if _ECC not in row.cells:
        return True
    mode = row.counter(_ECC, flag)
    if isinstance(mode, UnreadableValue):
        return mode
    return mode is not None and (mode or "GeForce" not in row.cells.get("name", ""))


_ECC: Final = "ecc.mode.current"


def _health(row: Row) -> Health:
    return Health(
        label=row.subject,
        product=row.read("name", words),
        memory_mib=row.read("memory.total", integer),
        driver=row.read("driver_version", release),
        has_ecc=_has_ecc(row),
        uncorrected=row.counter("ecc.errors.uncorrected.volatile.total", integer),
        remap_pending=row.counter("remapped_rows.pending", flag),
        remap_failed=row.counter("remapped_rows.failure", flag),
        max_clock_mhz=row.read("clocks.max.sm", integer),
        clock_faults=row.read("clocks_event_reasons.active", lambda cell: clock_faults(hexadecimal(cell))),
        pcie_generation=row.counter("pcie.link.gen.current", integer),
        pcie_generation_max=row.counter("pcie.link.gen.max", integer),
        pcie_width=row.counter("pcie.link.width.current", integer),
        pcie_width_max=row.counter("pcie.link.width.max", integer),
        needs_reset=needs_reset(row),
    )


@dataclass(frozen=True, slots=True)
class Topology:
    """The connections between GPUs and NICs, from `topo -m`."""

    paths: Mapping[tuple[str, str], str | UnreadableValue]
    """`NV18`, `PIX`, `PXB`, `PHB`, `NODE`, `SYS` by both names, as in the table."""
    nics: Mapping[str, str]
    """Device by its name in the table: `NIC0` is `mlx5_0`; drivers before 520 name the column `mlx5_0`."""
    numa: Mapping[str, str | UnreadableValue]
    """NUMA node by GPU."""

    def names(self, prefix: str) -> tuple[str, ...]:
        """Return the names of one kind, `GPU` or `NIC`."""
        peers = dict.fromkeys(first for first, _ in self.paths)
        return tuple(peer for peer in peers if (peer in self.nics) is (prefix == "NIC"))


def parse_topology(text: str) -> Topology:
    """Return the matrix and its legend. Raises UndeterminedError if a row or a line of the legend is missing."""
    try:
        matrix = read_matrix(text)
    except ValueError as error:
        raise UndeterminedError(f"nvidia-smi topo: {error}") from None
    missing = [device.why for device in matrix.devices.values() if isinstance(device, UnreadableValue)]
    if missing:
        raise UndeterminedError(f"the legend of nvidia-smi topo is cut short: {missing[0]}")
    return Topology(matrix.paths, {card: str(device) for card, device in matrix.devices.items()}, matrix.numa)
