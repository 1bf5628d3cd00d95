"""Matrix of `nvidia-smi topo -m`: the connection between each two of GPUs and network cards. This module has its only parser."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.tool_output import UnreadableValue, is_cut, lines_of, quoted

_WAY: Final = re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC|OK")
"""Words of the legend. Drivers before 384 print SOC for SYS."""
_NONE: Final = "N/A"
_NUMA: Final = re.compile(rf"\d+([-,]\d+)*|{_NONE}")


@dataclass(frozen=True)
class Matrix:
    """Peers in the order of the columns, and the connection between each two. UnreadableValue where a cell or a row was not read."""

    peers: tuple[str, ...]
    paths: Mapping[tuple[str, str], str | UnreadableValue]
    """Connection by row and column, without the diagonal: NV18, PIX, PXB, PHB, NODE, SYS."""
    devices: Mapping[str, str | UnreadableValue]
    """Network cards by the name of their column. Drivers before 520 use the device name as the name of the column."""
    numa: Mapping[str, str | UnreadableValue]
    """NUMA node by GPU; no entry where the table has no such column."""


def read_matrix(text: str) -> Matrix:
    """Return the matrix. Raise ValueError where there is none, or where the output ends before the legend."""
    lines = lines_of(text)
    start = next((number for number, line in enumerate(lines) if line.split()[:1] == ["GPU0"]), None)
    if start is None:
        raise ValueError(f'no matrix: "{quoted(lines[0])}"' if lines else "no matrix")
    end = next((number for number, line in enumerate(lines) if line.strip() == "Legend:"), None)
    if end is None or end < start:
        raise ValueError("the matrix is cut short")
    heads = _heads(lines[start])
    peers = tuple(heads[: heads.index("CPU Affinity")] if "CPU Affinity" in heads else heads)
    rows = {line.split()[0]: line for line in lines[start + 1 : end] if line.split()[0] in peers}
    ways: dict[tuple[str, str], str | UnreadableValue] = {}
    numa: dict[str, str | UnreadableValue] = {}
    for peer in peers:
        cells = _cells(rows.get(peer, ""), len(peers))
        for other, way in _connections(peer, peers, cells, rows.get(peer, "")).items():
            ways[peer, other] = way
        if peer.startswith("GPU") and set(heads) - set(peers) - {"CPU Affinity"}:
            place = heads.index("NUMA Affinity") if "NUMA Affinity" in heads else len(cells)
            cell = (cells[place] or _NONE) if len(cells) > place else None  # empty in virtual machines without NUMA nodes
            known = cell is not None and _NUMA.fullmatch(cell)
            numa[peer] = cell if known and cell is not None else UnreadableValue(f"{peer} NUMA Affinity", cell, rows.get(peer, ""))
    return Matrix(peers, ways, _devices(peers, lines[end : len(lines) - is_cut(text)]), numa)


def _heads(line: str) -> list[str]:
    """Return the titles of the columns. The first title of several words ends the list of peers."""
    if "\t" in line:
        return [cell.strip() for cell in line.split("\t") if cell.strip()]
    peers, found, _ = line.partition("CPU Affinity")
    return [*peers.split(), *(["CPU Affinity", "NUMA Affinity"] if found else [])]


def _cells(line: str, peers: int) -> list[str]:
    """Return the cells of a row without its name. In a blank-separated row with an unexpected number of cells, none is reliable."""
    if "\t" in line:
        return [cell.strip() for cell in line.split("\t")][1:]
    cells = line.split()[1:]
    return cells if sum(bool(_WAY.fullmatch(cell)) for cell in cells[:peers]) == peers else []


def _connections(peer: str, peers: Sequence[str], cells: Sequence[str], line: str) -> dict[str, str | UnreadableValue]:
    """Return the connections of a row by column. If the X is not on the diagonal, the cells belong to other columns."""
    cell_of = dict(zip(peers, cells, strict=False))
    shifted = cell_of.get(peer) != "X" or "X" in [cell for other, cell in cell_of.items() if other != peer]
    found: dict[str, str | UnreadableValue] = {}
    for other in peers:
        cell = cell_of.get(other)
        good = cell is not None and _WAY.fullmatch(cell) and not shifted
        if other != peer:
            found[other] = cell if good and cell is not None else UnreadableValue(f"{peer} to {other}", cell, line)
    return found


def _devices(peers: Sequence[str], legend: Sequence[str]) -> dict[str, str | UnreadableValue]:
    """Return the devices of the columns that are not GPUs."""
    named = {found[1]: found[2] for line in legend if (found := re.fullmatch(r"\s*(NIC\d+)\s*:\s*(\S+)\s*", line))}
    cards = [peer for peer in peers if not peer.startswith("GPU")]
    return {
        card: named.get(card, UnreadableValue(f"{card} in the legend", None, "") if re.fullmatch(r"NIC\d+", card) else card)
        for card in cards
    }
