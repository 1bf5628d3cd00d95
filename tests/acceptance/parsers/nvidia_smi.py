"""What `nvidia-smi` prints: a query with its line of titles, `nvlink --status`, `topo -m`."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cluster.probes.gpu import clock_faults
from rackwright.errors import CouldNotTell

ABSENT: Final = frozenset({"N/A", "Not Supported", "Requested functionality has been deprecated"})


@dataclass(frozen=True, slots=True)
class Health:
    """One GPU. None where the driver says that it has no such counter."""

    index: int
    product: str
    memory_mib: int
    driver: str
    uncorrected: int | None
    """Uncorrected ECC errors since the driver was loaded."""
    remap_pending: bool | None
    remap_failed: bool | None
    max_clock_mhz: int
    clock_faults: tuple[str, ...]
    """What holds its clock down and should not."""
    pcie_generation: int | None
    pcie_generation_most: int | None
    pcie_width: int | None
    pcie_width_most: int | None


def parse_health(text: str) -> tuple[Health, ...]:
    """Rows of `--query-gpu=… --format=csv,nounits`, in whatever order the fields were asked for. CouldNotTell for anything else."""
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and lines[0].strip() == "No devices were found":
        return ()
    if not lines or not lines[0].startswith("index"):
        raise CouldNotTell(f"nvidia-smi did not list GPUs: {lines[0].strip()[:120] if lines else 'it printed nothing'}")
    if not text.endswith("\n"):
        raise CouldNotTell("the list of nvidia-smi is cut short")
    titles, *rows = csv.reader(lines, skipinitialspace=True)
    names = [re.sub(r" \[.*\]$", "", title.strip()) for title in titles]
    if not rows or any(len(row) != len(names) for row in rows):
        raise CouldNotTell("the list of nvidia-smi is cut short")
    try:
        return tuple(_health(dict(zip(names, (cell.strip() for cell in row), strict=True))) for row in rows)
    except (KeyError, ValueError) as error:
        raise CouldNotTell(f"nvidia-smi answered something else than was asked: {error}") from None


def _health(row: Mapping[str, str]) -> Health:
    return Health(
        index=int(row["index"]),
        product=row["name"],
        memory_mib=int(row["memory.total"]),
        driver=row["driver_version"],
        uncorrected=_number(row["ecc.errors.uncorrected.volatile.total"]),
        remap_pending=_flag(row["remapped_rows.pending"]),
        remap_failed=_flag(row["remapped_rows.failure"]),
        max_clock_mhz=int(row["clocks.max.sm"]),
        clock_faults=clock_faults(int(row["clocks_event_reasons.active"], 16)),
        pcie_generation=_number(row["pcie.link.gen.current"]),
        pcie_generation_most=_number(row["pcie.link.gen.max"]),
        pcie_width=_number(row["pcie.link.width.current"]),
        pcie_width_most=_number(row["pcie.link.width.max"]),
    )


def _number(text: str) -> int | None:
    return None if text.strip("[]") in ABSENT else int(text)


def _flag(text: str) -> bool | None:
    number = {"yes": 1, "no": 0}.get(text.lower())
    return None if (value := number if number is not None else _number(text)) is None else bool(value)


def parse_nvlinks(text: str) -> Mapping[int, tuple[float, ...]]:
    """`nvlink --status`: GB/s of each link by GPU, 0 for an inactive one. CouldNotTell where no GPU is named."""
    links: dict[int, list[float]] = {}
    gpu = None
    for line in text.splitlines():
        title = re.match(r"GPU (\d+): ", line)
        link = re.match(r"\s+Link \d+: (?:([\d.]+) GB/s|<inactive>)", line)
        if title:
            gpu = int(title.group(1))
            links[gpu] = []
        elif link and gpu is not None:
            links[gpu].append(float(link.group(1) or 0))
    if not links or not text.endswith("\n"):
        raise CouldNotTell(f"nvidia-smi nvlink did not list the links: {' '.join(text.split())[:120] or 'it printed nothing'}")
    return {number: tuple(found) for number, found in links.items()}


@dataclass(frozen=True, slots=True)
class Topology:
    """`topo -m`: how each two of GPUs and NICs are connected."""

    ways: Mapping[tuple[str, str], str]
    """`NV18`, `PIX`, `PXB`, `PHB`, `NODE`, `SYS` by both names, as the table has them."""
    nics: Mapping[str, str]
    """Device by the name in the table: `NIC0` is `mlx5_0`."""
    numa: Mapping[str, str]
    """NUMA node by GPU."""

    def names(self, prefix: str) -> tuple[str, ...]:
        """Names of one kind, `GPU` or `NIC`."""
        return tuple(dict.fromkeys(first for first, _ in self.ways if first.startswith(prefix)))


def parse_topology(text: str) -> Topology:
    """The matrix and its legend. CouldNotTell where a row has fewer cells than there are columns."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    start = next((number for number, line in enumerate(lines) if line.split()[:1] == ["GPU0"]), None)
    if start is None:
        raise CouldNotTell(f"this is no matrix of nvidia-smi topo: {' '.join(text.split())[:120] or 'nothing was printed'}")
    columns = [name for name in lines[start].split() if re.fullmatch(r"(GPU|NIC)\d+", name)]
    ways, numa = dict[tuple[str, str], str](), dict[str, str]()
    rows = [line for line in lines[start + 1 :] if re.match(r"(GPU|NIC)\d+\s", line) and ":" not in line.split()[0]]
    for line in rows:
        first, *cells = line.split()
        if len(cells) < len(columns):
            raise CouldNotTell(f"the row of {first} is cut short")
        ways.update({(first, other): way for other, way in zip(columns, cells, strict=False) if way != "X"})
        more = re.split(r"\t+|\s{2,}", line.strip())[len(columns) + 1 :]
        if first.startswith("GPU") and len(more) > 1:
            numa[first] = more[1].strip()
    if {line.split()[0] for line in rows} != set(columns):
        raise CouldNotTell("the matrix of nvidia-smi topo is cut short")
    nics = dict(re.findall(r"(NIC\d+): (\S+)\n", text))
    if set(nics) != {name for name in columns if name.startswith("NIC")}:
        raise CouldNotTell("the legend of nvidia-smi topo is cut short")
    return Topology(ways, nics, numa)
