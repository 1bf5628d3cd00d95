"""Probe of an IMEX domain: the daemons of the nodes whose GPUs share the NVLink of a rack, as one of them sees the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.harness.tool_output import Lines, UnreadableValue, json_documents, quoted, whole_lines

READY: Final = "READY"
"""State of a daemon that serves: INITIALIZING, STARTING_AUTH_SERVER, WAITING_FOR_PEERS, WAITING_FOR_RECOVERY, INIT_GPU, READY,
SHUTTING_DOWN, UNAVAILABLE (DCGM 4, dcgm_fields.h, DCGM_FI_IMEX_DAEMON_STATUS)."""
CONNECTED: Final = "CONNECTED"
_LETTERS: Final = {
    "I": "INVALID",
    "N": "NEVER_CONNECTED",
    "R": "RECOVERING",
    "D": "DISCONNECTED",
    "A": "AUTHENTICATING",
    "!V!": "VERSION_MISMATCH",
    "!M!": "NODE_MAP_MISMATCH",
    "C": CONNECTED,
}
"""States of a connection, as the legend of `nvidia-imex-ctl -N` explains them."""
_NODE: Final = re.compile(r"Node #(\d+)\s+[-*]\s+(\S+)(?:\s+\*)?\s+-\s+([A-Z_]+)(\s+-\s+Version:.*)?\s*")
"""`Node #0 - 10.0.0.1 - READY`; an address between asterisks is read as well, although no published table has one."""
_STATE: Final = re.compile(r"[A-Z][A-Z_ ]*")


@dataclass(frozen=True)
class ImexDomain:
    """Daemons and connections of a domain; UnreadableValue for a state that was not read."""

    nodes: Lines[str | UnreadableValue]
    """State of each node's daemon by address."""
    connections: Lines[str | UnreadableValue]
    """State of each connection by `address address`: from, to."""


def parse_imex_domain(text: str) -> ImexDomain:
    """Return the domain from `nvidia-imex-ctl -N`, as JSON (`-j`) or as a table. Raise ValueError if no node is listed."""
    found = _of_table(text) if "Node #" in text else _of_json(text)
    if not found.nodes:
        raise ValueError(f'no node of the domain is listed: "{quoted(text)}"')
    return found


def _of_json(text: str) -> ImexDomain:
    """Return the domain from `{"nodes": {"0": {"host", "status", "connections": {"0": {"host", "status"}}}}, "status"}`."""
    document = next((one for one in json_documents(text) if isinstance(one, Mapping) and "nodes" in one), None)
    if document is None:
        raise ValueError(f'no nodes: "{quoted(text)}"')
    nodes: dict[str, str | UnreadableValue] = {}
    connections: dict[str, str | UnreadableValue] = {}
    unread: list[str] = []
    for number, node in document["nodes"].items():
        host = node.get("host") if isinstance(node, Mapping) else None
        if not isinstance(host, str) or not host.strip():
            unread.append(f"node {number}: {node}")
            continue
        _add(nodes, host, _state(host, node.get("status")))
        peers = node.get("connections")
        unread += [] if isinstance(peers, Mapping) else [f"connections of {host}: {peers}"]
        for other in peers.values() if isinstance(peers, Mapping) else ():
            peer = other.get("host") if isinstance(other, Mapping) else None
            if isinstance(peer, str) and peer.strip():
                _add(connections, f"{host} {peer}", _state(f"{host} to {peer}", other.get("status")))
            else:
                unread.append(f"a connection of {host}: {other}")
    return ImexDomain(Lines(nodes, unread), Lines(connections, unread))


def _state(subject: str, cell: Any) -> str | UnreadableValue:
    return cell if isinstance(cell, str) and _STATE.fullmatch(cell) else UnreadableValue(f"IMEX state of {subject}", str(cell), "")


def _add(found: dict[str, str | UnreadableValue], name: str, value: str | UnreadableValue) -> None:
    """Add a value. A name with two different values has none that is known."""
    before = found.setdefault(name, value)
    if not isinstance(before, UnreadableValue) and (isinstance(value, UnreadableValue) or before != value):
        found[name] = UnreadableValue(f"IMEX state of {name}", f"{before} and {value}", "")


def _of_table(text: str) -> ImexDomain:
    r"""Return the domain from lines `Node #0 - 10.0.0.1 - READY` and a matrix, whose title is `Nodes From\To  0   1`."""
    lines, partial = whole_lines(text)
    nodes: dict[str, str | UnreadableValue] = {}
    connections: dict[str, str | UnreadableValue] = {}
    addresses: dict[str, str] = {}
    unread, unread_rows = list(partial), list[str]()
    columns: list[str] | None = None
    for line in (line.strip() for line in lines):
        if line.startswith("Node #"):
            found = _NODE.fullmatch(line)
            if found and addresses.setdefault(found[1], found[2]) == found[2]:
                _add(nodes, found[2], found[3])
            else:
                unread.append(line)
        elif line.startswith("Nodes From"):
            columns = line.split()[2:]
            unread_rows += [] if set(columns) <= set(addresses) else [line]
        elif columns is not None and line.startswith("Domain State"):
            break
        elif columns is not None:
            found_cells = list(_row(line, columns, addresses))
            unread_rows += [] if found_cells else [line]
            for name, value in found_cells:
                _add(connections, name, value)
    unread_rows += [] if columns else ["no title of the matrix"]
    return ImexDomain(Lines(nodes, unread), Lines(connections, [*unread, *unread_rows]))


def _row(line: str, columns: list[str], addresses: Mapping[str, str]) -> Iterator[tuple[str, str | UnreadableValue]]:
    """Yield the connections of a row of the matrix; none if it has another number of cells, or its node is not listed."""
    number, *cells = line.split()
    own = addresses.get(number)
    if own is None or len(cells) != len(columns):
        return
    for column, cell in zip(columns, cells, strict=True):
        if column in addresses:
            name = f"{own} {addresses[column]}"
            yield name, _LETTERS.get(cell) or UnreadableValue(f"IMEX connection {name}", cell, line)


IMEX_DOMAIN = Probe(
    "imex-domain",
    on="nvlink_domain",
    command="nvidia-imex-ctl -N -j 2>/dev/null || nvidia-imex-ctl -N",  # -j is newer than -N
    parse=parse_imex_domain,
    timeout=20.0,  # the daemon asks all others, and some may not respond
)


def parse_imex_channel(text: str) -> str:
    """Return the kind of file that channel 0 is, from `stat`; `missing` without one."""
    line = text.strip()
    if not re.fullmatch(r"[a-z ]+", line):
        raise ValueError(f'no kind of file: "{quoted(text)}"')
    return line


CHANNEL: Final = "/dev/nvidia-caps-imex-channels/channel0"
IMEX_CHANNEL = Probe(
    "imex-channel",
    on="nvlink_domain",
    command=f"LC_ALL=C stat --format=%F {CHANNEL} 2>/dev/null || {{ [ -e {CHANNEL} ] && exit 1; echo missing; }}",
    parse=parse_imex_channel,
)
"""File of the channel that all users share; without one, CUDA exports no memory to other nodes (NVIDIA IMEX guide, IMEX Channels)."""
