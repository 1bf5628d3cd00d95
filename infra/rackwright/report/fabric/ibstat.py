"""Adapters and their ports in the output of `ibstat`, row by row. Pure.

Forms: ibstat.c of rdma-core 56 and of infiniband-diags 1.6 (ca_dump, port_dump, IBPANIC and IBWARN in main).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

VIRTUAL_TYPES: Final = frozenset(
    f"MT{number}" for number in (0x1002, 0x1004, 0x1012, 0x1014, 0x1016, 0x1018, 0x101A, 0x101C, 0x101E, 0xA2D3)
)
"""Types of virtual functions: device IDs with MLX4_PCI_DEV_IS_VF or MLX5_PCI_DEV_IS_VF in the kernel (mlx4/main.c, mlx5/core/main.c)."""
_HEAD: Final = re.compile(r"^(?:CA|Switch|Router|iWARP RNIC|\?\?\?) '(?P<name>[^']+)'$")
_PORT: Final = re.compile(r"^\s+Port (?P<number>\d+):$")
_ROW: Final = re.compile(r"^\s+(?P<key>[A-Z?][A-Za-z? ]*):(?: +(?P<cell>.*))?$")
_FAILED: Final = re.compile(
    r"^(?:ibpanic|ibwarn): \[\d+\] .*?IB device '(?P<name>[^']+)'|^ibpanic: \[\d+\] \w+: '(?P<missing>[^']+)' IB device"
)
"""`ibpanic: [7] main: stat of IB device 'mlx5_8' failed: …`, where releases before rdma-core 54 end; later ones warn and go on."""
_TYPE_ROW: Final = re.compile(r"^(?:CA|Switch|Router|iWARP RNIC|\?\?\?) type$")
_OF_ADAPTER: Final = frozenset({"type", "Number of ports", "Firmware version", "Hardware version", "Node GUID", "System image GUID"})
"""Rows of an adapter, before those of its ports."""
NO_ADAPTER: Final = re.compile(r"can't list IB device names: No such file|IB device 'mthca0'")
"""Messages of ibstat on a node whose kernel lists no adapter: libibumad then names mthca0 (umad.c, def_ca_name)."""

Cells = Mapping[str, tuple[str, ...]]
"""Row name -> its cells, in the order of the output. More than one cell means that the value is ambiguous."""


@dataclass
class AdapterBlock:
    """The rows of one adapter."""

    name: str
    cells: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ports: dict[int, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    """Rows of each port, by its number."""


@dataclass
class IbstatOutput:
    """All adapters that ibstat lists."""

    adapters: dict[str, AdapterBlock] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Adapter that ibstat could not read -> the line that reports it."""
    strays: tuple[str, ...] = ()
    """Rows that belong to no title: the title is missing."""


def read_ibstat(lines: Iterable[str]) -> IbstatOutput:
    """Return the rows of each adapter. Other lines are ignored; rows whose title is missing are strays."""
    found = IbstatOutput()
    block: AdapterBlock | None = None
    cells: dict[str, tuple[str, ...]] | None = None
    for line in (line.rstrip() for line in lines):
        if head := _HEAD.match(line):
            block = found.adapters.setdefault(head["name"], AdapterBlock(head["name"]))
            cells = block.cells
        elif failed := _FAILED.match(line):
            found.failed |= {} if NO_ADAPTER.search(line) else {failed["name"] or failed["missing"]: line}
        elif (port := _PORT.match(line)) and block:
            cells = block.ports.setdefault(int(port["number"]), {})
        elif row := _ROW.match(line):
            key = "type" if _TYPE_ROW.match(row["key"]) else row["key"]
            if block and cells is not block.cells and key in _OF_ADAPTER:
                block = cells = None  # The rows of another adapter, whose title is missing.
            if cells is None:
                found.strays += (line,)
            else:
                cells[key] = tuple(dict.fromkeys((*cells.get(key, ()), row["cell"] or "")))
    return found
