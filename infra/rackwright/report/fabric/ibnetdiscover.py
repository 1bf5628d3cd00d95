"""Links of an InfiniBand fabric by the GUIDs of their ends, from the output of `ibnetdiscover -p`, and names from a node-name map. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    """Width and speed, as in `4x NDR`."""
    lids: Mapping[int, int]
    """LID of every GUID that has one. Devices inside a switch are left out."""
    idle: Mapping[PortId, str]
    """Ports without a link that are listed, with their width and speed: `4x SDR` if nothing is connected."""
    unread: Mapping[str, str]
    """Queries without an answer: directed route of the device -> line. Devices behind it are missing from the links."""

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


@cache
def read_links(text: str) -> FabricLinks:
    """Parse the output of `ibnetdiscover -p`, with or without its warnings.

    Raise ValueError if it is empty, truncated or ambiguous, or has an invalid line.
    """
    kinds: dict[int, DeviceKind] = {}
    descriptions: dict[int, str] = {}
    far: dict[PortId, PortId] = {}
    rates: dict[PortId, str] = {}
    lids: dict[int, int] = {}
    idle: dict[PortId, str] = {}
    for number, line in enumerate(filter(str.strip, text.splitlines()), start=1):
        if _WARNING.match(line):
            continue
        wired = _LINE.match(line.rstrip())
        found = wired or _UNUSED.match(line.rstrip())
        if found is None:
            raise ValueError(f"line {number} is not output of `ibnetdiscover -p`: {line.strip()[:80]}")
        if wired and _is_within(wired):
            continue
        near = PortId(int(found["guid"], 16), int(found["port"]))
        kinds[near.guid] = DeviceKind(found["kind"])
        descriptions[near.guid] = found["name"].strip()
        lids |= {near.guid: int(found["lid"])} if int(found["lid"]) else {}
        rate = f"{found['width']} {found['speed']}"
        if wired:
            other = PortId(int(wired["far_guid"], 16), int(wired["far_port"]))
            if far.setdefault(near, other) != other:
                raise ValueError(f"port {near.number} of {guid_text(near.guid)} has two links: two devices have the same GUID")
            rates[near] = rate
        else:
            idle[near] = rate
    _require_both_ends(far, next(filter(_WARNING.match, text.splitlines()), ""))
    return FabricLinks(kinds, descriptions, far, rates, lids, idle, unanswered_queries(text))


def unanswered_queries(text: str) -> dict[str, str]:
    """Return the queries of a discovery that were not answered, from its warnings: directed route of the device -> line.

    >>> unanswered_queries("query_smp.c:199; umad (DR path slid 0; dlid 0; 0,1,10 Attr 0x11:0) bad status 110; Connection timed out")
    ... # doctest: +ELLIPSIS
    {'DR path slid 0; dlid 0; 0,1,10': 'query_smp.c:199; umad (DR path ...'}
    """
    found: dict[str, str] = {}
    for line in filter(_WARNING.match, text.splitlines()):
        query = _QUERY.search(line)
        if query and query["attribute"] != _OPTIONAL:
            found.setdefault(query["route"], line.strip())
        elif query is None and re.search(r"query.* failed", line, re.IGNORECASE) and " query failed on " not in line:
            found.setdefault(line.strip(), line.strip())
    return found


def _is_within(wired: re.Match[str]) -> bool:
    """Return whether a link is inside a switch: one end is an aggregation node or a router of the switch at the other end."""
    sides = {DeviceKind(wired[f"{side}kind"]): (int(wired[f"{side}guid"], 16), wired[f"{side}name"].strip()) for side in ("", "far_")}
    inner = sides.get(DeviceKind.ADAPTER) or sides.get(DeviceKind.ROUTER)
    if DeviceKind.SWITCH not in sides or inner is None:
        return False
    return inner[1] == _AGGREGATION or inner[0] - sides[DeviceKind.SWITCH][0] == _WITHIN


def _require_both_ends(far: Mapping[PortId, PortId], warning: str) -> None:
    if not far:
        raise ValueError(f"contains no link: {warning.strip()[:80]}" if warning else "contains no link")
    if one_sided := [near for near, other in far.items() if far.get(other) != near]:
        raise ValueError(f"output is truncated: the link of {one_sided[0]} is listed from one end only")


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
