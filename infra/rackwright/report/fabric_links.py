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
    """All links that are up, from both ends, without those inside a switch."""

    kinds: Mapping[int, DeviceKind]
    descriptions: Mapping[int, str]
    """Node description of every GUID: for display, and to name a device whose GUID is not known. May be empty, and need not be unique."""
    far: Mapping[PortId, PortId]
    rates: Mapping[PortId, str]
    """Width and speed, as in `4x NDR`."""

    def label(self, guid: int) -> str:
        """Return a device for display: its description and its GUID."""
        return f'"{self.descriptions[guid]}" {guid_text(guid)}' if guid in self.descriptions else guid_text(guid)

    def renamed(self, names: Mapping[int, str]) -> FabricLinks:
        """Return the links with the descriptions of a node-name map, by GUID."""
        return replace(self, descriptions={guid: names.get(guid, said) for guid, said in self.descriptions.items()})


_END: Final = r"(?P<{0}kind>CA|SW|RT|\?\?)\s+\d+\s+(?P<{0}port>\d+)\s+0x(?P<{0}guid>[0-9a-f]+)"
_LINE: Final = re.compile(
    rf"^{_END.format('')}\s+(?P<width>\S+)\s+(?P<speed>\S+)\s+-\s+{_END.format('far_')}\s+\( '(?P<name>.*)' - '(?P<far_name>.*)' \)$"
)
_UNUSED: Final = re.compile(rf"^{_END.format('')}\s+\S+\s+\S+\s+'(?P<name>.*)'$")
_AGGREGATION: Final = "Mellanox Technologies Aggregation Node"
"""Description of the adapter inside every Quantum switch, for reductions with NVIDIA SHARP, linked with the port after the last one
(QM8700: 41, QM9700: 65). No cable leads to it."""
_WITHIN: Final = 8
"""GUID of an aggregation node or of a router inside a switch, minus the switch's: both are of the switch's own block of GUIDs. From public
outputs of ibhosts, ibswitches and ibnetdiscover: QM8700 (aggregation nodes), Q3400-RA (routers)."""


@cache
def read_links(text: str) -> FabricLinks:
    """Parse the output of `ibnetdiscover -p`; raise ValueError if it is empty, truncated or ambiguous, or has an invalid line."""
    kinds: dict[int, DeviceKind] = {}
    descriptions: dict[int, str] = {}
    far: dict[PortId, PortId] = {}
    rates: dict[PortId, str] = {}
    for number, line in enumerate(filter(str.strip, text.splitlines()), start=1):
        wired = _LINE.match(line.rstrip())
        found = wired or _UNUSED.match(line.rstrip())
        if found is None:
            raise ValueError(f"line {number} is not output of `ibnetdiscover -p`: {line.strip()[:80]}")
        if wired and _is_within(wired):
            continue
        near = PortId(int(found["guid"], 16), int(found["port"]))
        kinds[near.guid] = DeviceKind(found["kind"])
        descriptions[near.guid] = found["name"].strip()
        if wired:
            other = PortId(int(wired["far_guid"], 16), int(wired["far_port"]))
            if far.setdefault(near, other) != other:
                raise ValueError(f"port {near.number} of {guid_text(near.guid)} has two links: two devices have the same GUID")
            rates[near] = f"{wired['width']} {wired['speed']}"
    _require_both_ends(far)
    return FabricLinks(kinds, descriptions, far, rates)


def _is_within(wired: re.Match[str]) -> bool:
    """Return whether a link is inside a switch: one end is an aggregation node or a router of the switch at the other end."""
    sides = {DeviceKind(wired[f"{side}kind"]): (int(wired[f"{side}guid"], 16), wired[f"{side}name"].strip()) for side in ("", "far_")}
    inner = sides.get(DeviceKind.ADAPTER) or sides.get(DeviceKind.ROUTER)
    if DeviceKind.SWITCH not in sides or inner is None:
        return False
    return inner[1] == _AGGREGATION or inner[0] - sides[DeviceKind.SWITCH][0] == _WITHIN


def _require_both_ends(far: Mapping[PortId, PortId]) -> None:
    if not far:
        raise ValueError("contains no link")
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
