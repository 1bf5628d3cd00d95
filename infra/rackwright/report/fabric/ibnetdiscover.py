"""Links of an InfiniBand fabric by the GUIDs of their ends, from the output of `ibnetdiscover -p`, and names from a node-name map. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple


class DeviceKind(StrEnum):
    """Type of a device as the fabric reports it (NodeInfo.NodeType), in the words of ibnetdiscover (rdma-core, ibnetdiscover.c)."""

    ADAPTER = "CA"
    SWITCH = "SW"
    ROUTER = "RT"
    OTHER = "??"


class PortId(NamedTuple):
    """A port in the fabric. libibnetdisc gives every port NodeInfo.PortGUID: an adapter's port has its own, a switch has one for all."""

    guid: int
    number: int

    def __str__(self) -> str:
        return f"{guid_text(self.guid)}:{self.number}"


@dataclass(frozen=True, eq=False)
class FabricLinks:
    """All links that are up, from both ends, without links inside a switch."""

    kinds: Mapping[int, DeviceKind]
    descriptions: Mapping[int, str]
    """Node description of every GUID: for display, and to name a device whose GUID is not known. May be empty, and need not be unique."""
    far: Mapping[PortId, PortId]
    rates: Mapping[PortId, str]
    """Width and speed, as in `4x NDR`, of links whose rate was read."""
    lids: Mapping[int, int]
    """LID of every GUID that has one. Devices inside a switch are left out."""
    idle: Mapping[PortId, str]
    """Ports without a link that are listed, with their width and speed: `4x SDR` if nothing is connected."""
    unread: Mapping[str, str]
    """Queries without an answer: directed route of the device -> line. Devices behind it are missing from the links."""
    unrated: Mapping[PortId, str] = field(default_factory=dict)
    """Links whose rate was not read, with the words of the tool: `4x ???` if its release does not know the speed."""
    unsure: tuple[str, ...] = ()
    """Rows that could not be read, links that are listed from one end, and ports with two links. Other links may be missing, too."""

    @property
    def is_incomplete(self) -> bool:
        """Return whether a link that is not listed may exist."""
        return bool(self.unread or self.unsure)

    def is_down(self, port: PortId) -> bool:
        """Return whether a port certainly has no link. A port whose device did not respond keeps the speed of its link."""
        return self.idle.get(port, "").endswith(" SDR")

    def label(self, guid: int) -> str:
        """Return a device for display: its description and its GUID."""
        return f'"{self.descriptions[guid]}" {guid_text(guid)}' if guid in self.descriptions else guid_text(guid)

    def renamed(self, names: Mapping[int, str]) -> FabricLinks:
        """Return the links with the descriptions of a node-name map, by GUID."""
        return replace(self, descriptions={guid: names.get(guid, description) for guid, description in self.descriptions.items()})


_END: Final = r"(?P<{0}kind>CA|SW|RT|\?\?)\s+(?P<{0}lid>\d+)\s+(?P<{0}port>\d+)\s+0x(?P<{0}guid>[0-9a-f]+)"
_LINE: Final = re.compile(
    rf"^{_END.format('')}\s+(?P<width>\S+)\s+(?P<speed>\S+)\s+-\s+{_END.format('far_')}\s+\( '(?P<name>.*)' - '(?P<far_name>.*)' \)$"
)
_UNUSED: Final = re.compile(rf"^{_END.format('')}\s+(?P<width>\S+)\s+(?P<speed>\S+)\s+'(?P<name>.*)'$")
_WARNING: Final = re.compile(r"^(?:\S+\.c:\d+; |ibwarn: \[\d+\] )")
"""First words of the lines that libibnetdisc (IBND_ERROR), libibmad and libibumad (IBWARN) print on standard error."""
_QUERY: Final = re.compile(r"u?mad \((?P<route>.*) Attr 0x(?P<attribute>[0-9a-f]+):\d+\) bad status ")
_OPTIONAL: Final = "ff90"
"""Mellanox's extended port information, which libibnetdisc does not need (query_smp.c, IB_ATTR_MLNX_EXT_PORT_INFO)."""
_AGGREGATION: Final = "Mellanox Technologies Aggregation Node"
"""Description of the adapter inside every Quantum switch, for reductions with NVIDIA SHARP, linked to the port after the last one
(QM8700: 41, QM9700: 65). No cable leads to it."""
_WITHIN: Final = 8
"""GUID of an aggregation node or of a router inside a switch, minus the switch's: both are of the switch's own block of GUIDs. From public
outputs of ibhosts, ibswitches and ibnetdiscover: QM8700 (aggregation nodes), Q3400-RA (routers)."""
_RATE: Final = re.compile(r"\d+x [A-Z]+\d*")
_ROW_LIKE: Final = re.compile(r"^(?:CA|SW|RT|\?\?)\s|0x[0-9a-f]{8}")
"""Rows of the table, and rows with a damaged word; any other line is a message."""
_STATUS: Final = re.compile(r"^== (?P<adapter>\S+) ended with status \d+")
"""Line with which the checks' command reports a discovery that failed (rackwright.checks.cluster.probes.fabric)."""


def is_rate(text: str) -> bool:
    """Return whether width and speed of a link were read. The tool prints ?? and ??? for numbers that its release does not know.

    >>> is_rate("4x NDR"), is_rate("4x ???")
    (True, False)
    """
    return _RATE.fullmatch(text) is not None


def text_lines(text: str) -> list[str]:
    """Return the lines that are not blank, without line ends of any kind.

    >>> text_lines("a\\r\\n\\nb \\n")
    ['a', 'b']
    """
    return [line.rstrip() for line in re.split(r"\r\n|\r|\n", text) if line.strip()]


@dataclass
class _Rows:
    """Rows of a discovery as they are read."""

    kinds: dict[int, DeviceKind] = field(default_factory=dict)
    names: dict[int, Counter[str]] = field(default_factory=dict)
    lids: dict[int, int] = field(default_factory=dict)
    links: dict[PortId, dict[PortId, str]] = field(default_factory=dict)
    """Port -> the ports at the other end, with the rate that the row of the port lists; empty if only the other end lists it."""
    idle: dict[PortId, str] = field(default_factory=dict)
    unsure: list[str] = field(default_factory=list)

    def add(self, row: re.Match[str], *, wired: bool) -> None:
        near, rate = self._end(row, ""), f"{row['width']} {row['speed']}"
        if wired:
            far = self._end(row, "far_")
            self.links.setdefault(near, {})[far] = rate
            self.links.setdefault(far, {}).setdefault(near, "")
        else:
            self.idle[near] = rate

    def _end(self, row: re.Match[str], side: str) -> PortId:
        guid = int(row[f"{side}guid"], 16)
        self.kinds.setdefault(guid, DeviceKind(row[f"{side}kind"]))
        self.names.setdefault(guid, Counter())[row[f"{side}name"].strip()] += 1
        self.lids |= {guid: int(row[f"{side}lid"])} if int(row[f"{side}lid"]) else {}
        return PortId(guid, int(row[f"{side}port"]))

    def unreliable(self) -> Iterator[PortId]:
        """Yield ports with two links."""
        return (port for port, ends in self.links.items() if len(ends) > 1)


@cache
def read_links(text: str) -> FabricLinks:
    """Parse the output of `ibnetdiscover -p`, with or without its warnings, row by row.

    A link that one of its rows lists is read. A port with two links has none, because two devices have its GUID. Raise ValueError if the
    output contains no link.
    """
    rows = _Rows()
    lines = text_lines(text)
    for line in lines:
        _read_row(line, rows)
    if not rows.links:
        raise ValueError(_without_links(lines))
    unreliable = frozenset(rows.unreliable())
    far = {port: next(iter(ends)) for port, ends in rows.links.items() if not unreliable & {port, *ends}}
    rates = {port: _rate(rows.links[port][other], rows.links[other][port]) for port, other in far.items()}
    return FabricLinks(
        rows.kinds,
        {guid: names.most_common(1)[0][0] for guid, names in rows.names.items()},
        far,
        {port: rate for port, rate in rates.items() if is_rate(rate)},
        rows.lids,
        {port: rate for port, rate in rows.idle.items() if port not in rows.links},
        unanswered_queries(text),
        {port: rate for port, rate in rates.items() if not is_rate(rate)},
        (*rows.unsure, *_doubts(rows, unreliable)),
    )


def _without_links(lines: list[str]) -> str:
    """Return why an output contains no link."""
    warning = next((line for line in lines if _WARNING.match(line)), "") or next(filter(_STATUS.match, lines), "")
    if lines and not warning:
        return f"line 1 is not output of `ibnetdiscover -p`: {lines[0].strip()[:80]}"
    return f"contains no link: {warning[:160]}" if warning else "contains no link"


def _read_row(line: str, rows: _Rows) -> None:
    if _WARNING.match(line) or _STATUS.match(line):
        return
    wired = _LINE.match(line)
    if wired and _is_within(wired):
        return
    if row := wired or _UNUSED.match(line):
        rows.add(row, wired=bool(wired))
    elif _ROW_LIKE.search(line):
        rows.unsure.append(f'a row cannot be read: "{line[:160]}"')


def _rate(own: str, other: str) -> str:
    """Return the rate that the row of a port lists, or that of the other end, if it was not read."""
    return own if is_rate(own) or not other else other


def _doubts(rows: _Rows, unreliable: Iterable[PortId]) -> Iterator[str]:
    """Yield why links are in doubt."""
    for port in sorted(unreliable):
        yield f"port {port.number} of {guid_text(port.guid)} has two links: two devices have the same GUID"
    for port, ends in rows.links.items():
        if "" in ends.values() and port not in unreliable:
            yield f"the output is incomplete: the link of {port} is listed from one end only"


def unanswered_queries(text: str) -> dict[str, str]:
    """Return the queries of a discovery that were not answered, from its warnings: directed route of the device -> line.

    >>> unanswered_queries("query_smp.c:199; umad (DR path slid 0; dlid 0; 0,1,10 Attr 0x11:0) bad status 110; Connection timed out")
    ... # doctest: +ELLIPSIS
    {'DR path slid 0; dlid 0; 0,1,10': 'query_smp.c:199; umad (DR path ...'}
    """
    lines = text_lines(text)
    found = {line: line for line in filter(_STATUS.match, lines)}
    for line in filter(_WARNING.match, lines):
        query = _QUERY.search(line)
        if query and query["attribute"] != _OPTIONAL:
            found.setdefault(query["route"], line.strip())
        elif query is None and re.search(r"query.* failed|duplicate (node|port):", line, re.IGNORECASE) and " query failed on " not in line:
            found.setdefault(line.strip(), line.strip())
    return found


def _is_within(wired: re.Match[str]) -> bool:
    """Return whether a link is inside a switch: one end is an aggregation node or a router of the switch at the other end."""
    sides = {DeviceKind(wired[f"{side}kind"]): (int(wired[f"{side}guid"], 16), wired[f"{side}name"].strip()) for side in ("", "far_")}
    inner = sides.get(DeviceKind.ADAPTER) or sides.get(DeviceKind.ROUTER)
    if DeviceKind.SWITCH not in sides or inner is None:
        return False
    return inner[1] == _AGGREGATION or inner[0] - sides[DeviceKind.SWITCH][0] == _WITHIN


_NAME: Final = re.compile(r'^\s*(?P<guid>0[xX][0-9a-fA-F]+)\s+"?(?P<name>[^"#\n]+)')


def read_node_names(text: str) -> dict[int, str]:
    """Parse a node-name map: lines `<guid> "<name>"` and comments (infiniband-diags(8)); raise ValueError for any other line.

    >>> read_node_names('# spines\\n0xfc6a1c0300000200 "spine-01"\\n')
    {18188380844299649536: 'spine-01'}
    """
    found: dict[int, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if (named := _NAME.match(line)) is None:
            raise ValueError(f"line {number} is not a line of a node-name map: {line.strip()[:80]}")
        found.setdefault(int(named["guid"], 16), named["name"].strip())
    return found


def guid_text(guid: int) -> str:
    """Return a GUID as the tools print it.

    >>> guid_text(0xb94)
    '0x0000000000000b94'
    """
    return f"{guid:#018x}"
