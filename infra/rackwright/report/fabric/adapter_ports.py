"""Port GUIDs of nodes' adapters, from the output of `ibstat` on many nodes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rackwright.report.fabric.ibstat import VIRTUAL_TYPES, read_ibstat

_PREFIXED: Final = re.compile(r"^(?P<node>[A-Za-z0-9][\w.-]*): ?(?P<said>.*)$")
"""A line as printed by `pdsh` and `clush -L`."""


@dataclass(frozen=True)
class NodePorts:
    """Port 1 of the nodes' adapters."""

    guids: dict[str, int]
    """Adapter, as `worker0/mlx5_0` -> GUID of its port."""
    virtual: frozenset[str]
    """Adapters that are virtual functions: the fabric contains the physical function instead."""


def read_node_ports(text: str) -> NodePorts:
    """Parse the output of `ibstat` on many nodes, each line prefixed with its node; raise ValueError if it has no port of an adapter.

    >>> read_node_ports("w0: CA 'mlx5_0'\\nw0: \\tCA type: MT4129\\nw0: \\tPort 1:\\nw0: \\t\\tPort GUID: 0x946dae0300f01234\\n").guids
    {'w0/mlx5_0': 10695287286183334452}
    """
    guids: dict[str, int] = {}
    virtual: set[str] = set()
    for node, lines in _by_node(text).items():
        for name, adapter in read_ibstat(lines).adapters.items():
            virtual |= {f"{node}/{name}"} if adapter.cells.get("type", ("",))[0] in VIRTUAL_TYPES else set()
            cells = adapter.ports.get(1, {}).get("Port GUID", ())
            if len(cells) == 1 and re.fullmatch(r"0x[0-9a-f]{16}", cells[0]) and int(cells[0], 16):
                guids[f"{node}/{name}"] = int(cells[0], 16)
    if not guids:
        raise ValueError("contains no port GUID of a node")
    return NodePorts({name: guid for name, guid in guids.items() if name not in virtual}, frozenset(virtual))


def _by_node(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node, line in _lines(text):
        found.setdefault(node, []).append(line)
    return found


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if prefixed := _PREFIXED.match(line):
            yield prefixed["node"].partition(".")[0], prefixed["said"]
