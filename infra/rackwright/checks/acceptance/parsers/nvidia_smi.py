"""Output of `nvidia-smi`: a query with its header line, `nvlink --status`, `topo -m`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rackwright.checks.cluster.harness.tool_output import (
    Row,
    UnreadableValue,
    decimal,
    flag,
    hexadecimal,
    integer,
    is_cut,
    lines_of,
    quoted,
    release,
    words,
)
from rackwright.checks.cluster.probes.gpu import clock_faults
from rackwright.checks.cluster.probes.gpu_topology import read_matrix
from rackwright.checks.cluster.probes.nvidia_smi import GpuList, needs_reset, read_table
from rackwright.errors import UndeterminedError


@dataclass(frozen=True, slots=True)
class Health:
    """One GPU. None if the driver reports that it has no such counter, UnreadableValue if the value was not read."""

    label: str
    product: str | UnreadableValue
    memory_mib: int | UnreadableValue
    driver: str | UnreadableValue
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


def _health(row: Row) -> Health:
    return Health(
        label=row.subject,
        product=row.read("name", words),
        memory_mib=row.read("memory.total", integer),
        driver=row.read("driver_version", release),
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


_NO_LINKS = re.compile(r"all links are inactive|does not have or support nvlink", re.IGNORECASE)


def parse_nvlinks(text: str) -> Mapping[int, tuple[float | UnreadableValue, ...]]:
    """Return GB/s of each link by GPU from `nvlink --status`: 0 for an inactive link, none for a GPU without links that are up.

    A link whose line is missing or was not read is UnreadableValue.
    Raises UndeterminedError if no GPU is named, or the text ends before the first link.
    """
    links = dict[int, dict[int, float | UnreadableValue]]()
    gpu, last = None, 0
    lines = lines_of(text)
    for line in lines:
        title = re.match(r"GPU (\d+)\s*:", line)
        link = re.match(r"\s*Link (\d+)\s*:\s*(.*?)\s*$", line)
        if title:
            gpu = int(title[1])
            links.setdefault(gpu, {})
        elif link and gpu is not None:
            last, value = int(link[1]), _rate(link[2], f"GPU {gpu} link {link[1]}", line)
            before = links[gpu].setdefault(last, value)
            if not isinstance(before, UnreadableValue) and (isinstance(value, UnreadableValue) or before != value):
                links[gpu][last] = UnreadableValue(f"GPU {gpu} link {last}", link[2], line)
        elif gpu is not None and line[0].isspace() and not _NO_LINKS.search(line):
            links[gpu][len(links[gpu])] = UnreadableValue(f"GPU {gpu} link", line.strip(), line)
    if not links or (is_cut(text) and not any(links.values())):
        raise UndeterminedError(
            f'nvidia-smi nvlink listed no links: "{quoted(lines[0])}"' if lines else "nvidia-smi nvlink printed nothing"
        )
    if is_cut(text) and gpu is not None:
        links[gpu][last + 1] = UnreadableValue(f"GPU {gpu} link {last + 1}", None, lines[-1])
    return {number: _in_order(number, found) for number, found in links.items()}


def _rate(value: str, subject: str, line: str) -> float | UnreadableValue:
    found = re.fullmatch(r"(\S+) GB/s", value)
    if value.lower() == "<inactive>":
        return 0.0
    try:
        return decimal(found[1]) if found else UnreadableValue(subject, value, line)
    except ValueError:
        return UnreadableValue(subject, value, line)


def _in_order(gpu: int, links: Mapping[int, float | UnreadableValue]) -> tuple[float | UnreadableValue, ...]:
    """Return the links by number; a missing one below the highest number is UnreadableValue."""
    numbers = range(max(links, default=-1) + 1)
    return tuple(links[number] if number in links else UnreadableValue(f"GPU {gpu} link {number}", None, "") for number in numbers)


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
