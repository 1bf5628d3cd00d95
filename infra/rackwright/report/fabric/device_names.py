"""Assignment of a fabric's devices to the plan: by GUID if it is known, else by an unambiguous description. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from rackwright.report.fabric.ibnetdiscover import DeviceKind, FabricLinks, PortId


class CableEnd(NamedTuple):
    """One end of a cable."""

    device: str
    """`worker0/mlx5_3`, a switch, or the label of a device that the plan does not have."""
    port: int
    kind: DeviceKind
    node: str | None = None
    """Node of the adapter; None for a switch, and for an adapter of an unknown node."""

    def __str__(self) -> str:
        return f"{self.device}:{self.port}"


def end_of(word: str) -> CableEnd:
    """Return an end of a cable of the inventory, in which `/` is between node and adapter.

    >>> end_of("worker0/mlx5_3:1").node, end_of("leaf-su1-r3:1").node
    ('worker0', None)
    """
    name, _, port = word.rpartition(":")
    return _end(name, int(port))


def _end(name: str, port: int) -> CableEnd:
    node, slash, _ = name.partition("/")
    return CableEnd(name, port, DeviceKind.ADAPTER, node) if slash else CableEnd(name, port, DeviceKind.SWITCH)


@dataclass(frozen=True, eq=False)
class LiveFabric:
    """All links that are up, in the names of the plan."""

    links: FabricLinks
    names: Mapping[int, str]
    """GUID of every identified device -> its name; planned or not, with or without a link."""
    unassigned: Mapping[str, str | None]
    """Label of every device that may be in the plan -> its node, or None if the node is unknown or the device is a switch."""
    identified: frozenset[str]
    """Devices of the plan that have an entry in `names`."""
    far: Mapping[CableEnd, CableEnd]
    """Links between devices, without links between chips of one planned switch."""
    rates: Mapping[CableEnd, str]
    unrated: Mapping[CableEnd, str]
    """Ends of links whose rate was not read, with the words of the tool."""
    chips: Mapping[str, str]
    """Chip of a planned switch with several chips -> the switch."""
    line_card: str
    """Line card of a director switch, as 2x18; empty if the position of a chip's ports in the switch is unknown."""

    @property
    def unplaced(self) -> frozenset[str]:
        """Return planned switches with several chips whose ports cannot be assigned to ports of the plan."""
        return frozenset() if self.line_card else frozenset(self.chips.values())

    @property
    def switches(self) -> frozenset[str]:
        """Return every switch, including unnamed ones."""
        found = (guid for guid, kind in self.links.kinds.items() if kind is DeviceKind.SWITCH)
        names = (self.names.get(guid, self.links.label(guid)) for guid in found)
        return frozenset(self.chips.get(name, name) for name in names)

    def end(self, port: PortId) -> CableEnd:
        """Return a port in the names of the plan, or with a label."""
        return _placed(_live_end(self.links, port, self.names), self.chips, self.line_card)

    def may_be(self, found: CableEnd, planned: CableEnd) -> bool:
        """Return whether a port that could not be identified may be this port of the plan."""
        if planned.device in self.unplaced:
            return self.chips.get(found.device) == planned.device
        if found.device not in self.unassigned or planned.device in self.identified:
            return False
        return (found.kind, found.port) == (planned.kind, planned.port) and self.unassigned[found.device] in (None, planned.node)

    def may_be_unread(self, *ends: CableEnd) -> bool:
        """Return whether a link between ports that are not connected may exist, because a device did not respond or a row was lost."""
        guids = {name: guid for guid, name in self.names.items()}
        ports = (PortId(guids[end.device], end.port) for end in ends if end.device in guids)
        return self.links.is_incomplete and not any(map(self.links.is_down, ports))

    def unnamed(self, kind: DeviceKind) -> list[str]:
        """Return the labels of the devices of a kind that may be devices of the plan."""
        return sorted({end.device for end in self.far if end.kind is kind and end.device in self.unassigned})


_CHIP: Final = re.compile(r"^MF0;(?P<host>[^:]+):[^/]*(?:/(?P<path>.+))?$")
"""Description of a chip of a managed NVIDIA switch: `MF0;<host name>:<model>/U1`; of several chips with one host name `/U2` (Quantum-X800),
`/L17/U2` or `/S3/U1` (line and spine cards of a director switch)."""
_FACTORY: Final = re.compile(r"Mellanox Technologies|^Infiniscale|^localhost\b", re.IGNORECASE)
"""Descriptions of devices without a name of their own: `SwitchIB Mellanox Technologies`, `MT4129 ConnectX7   Mellanox Technologies`."""


def assigned(
    links: FabricLinks, planned: Iterable[CableEnd], guids: Mapping[str, int], hidden: Collection[str] = (), line_card: str = ""
) -> LiveFabric:
    """Return the links in the names of the plan. `guids`: port GUID of devices of the plan or of other adapters of its nodes.

    A device with a known GUID is identified by it alone. Any other is identified by its description if it is a name of the plan, and no
    other device of the fabric has it. Devices of the plan that are `hidden` are not identified.
    """
    wanted = {end.device: end for end in planned}
    times = Counter(guids.values())
    names = {guid: name for name, guid in guids.items() if guid and times[guid] == 1}
    names |= _described(links, wanted, excluded=frozenset(guids.values()), taken=guids.keys() | set(hidden))
    nodes = frozenset(end.node for end in wanted.values() if end.node)
    chips = {name: name.partition("/")[0] for guid, name in names.items() if links.kinds.get(guid) is DeviceKind.SWITCH and "/" in name}
    chips = {chip: switch for chip, switch in chips.items() if switch in wanted}
    own = {port: _live_end(links, port, names) for port in links.far}
    between = {port: other for port, other in links.far.items() if not _is_one_switch(own[port], own[other], chips)}
    ends = {port: _placed(end, chips, line_card) for port, end in own.items()}
    return LiveFabric(
        links,
        names,
        _unassigned(links, names, nodes),
        frozenset([*names.values(), *(chips.values() if line_card else ())]) & wanted.keys(),
        far={ends[port]: ends[other] for port, other in between.items()},
        rates={ends[port]: links.rates[port] for port in between if port in links.rates},
        unrated={ends[port]: links.unrated[port] for port in between if port in links.unrated},
        chips=chips,
        line_card=line_card,
    )


_LINE_CARD: Final = re.compile(r"/L(?P<card>\d+)/U(?P<chip>\d+)$")


def _is_one_switch(one: CableEnd, other: CableEnd, chips: Mapping[str, str]) -> bool:
    return one.device in chips and chips[one.device] == chips.get(other.device)


def _placed(end: CableEnd, chips: Mapping[str, str], line_card: str) -> CableEnd:
    """Return a port of a line card as numbered in the plan, by card, chip and port of the chip; return any other port unchanged.

    >>> str(_placed(CableEnd("core/L02/U1", 5, DeviceKind.SWITCH), {"core/L02/U1": "core"}, "2x18"))
    'core:41'
    """
    place = _LINE_CARD.search(end.device)
    if end.device not in chips or place is None or not line_card:
        return end
    per_card, ports = map(int, line_card.split("x"))
    if end.port > ports:
        return end
    before = (int(place["card"]) - 1) * per_card + int(place["chip"]) - 1
    return CableEnd(chips[end.device], before * ports + end.port, DeviceKind.SWITCH)


def _described(links: FabricLinks, wanted: Collection[str], *, excluded: Collection[int], taken: Collection[str]) -> dict[int, str]:
    """Return the names of devices by their descriptions: names of switches, and adapter names that are in the plan."""
    names: dict[int, str] = {}
    for guid, name in {**links.descriptions, **_chip_names(links)}.items():
        kind = links.kinds[guid]
        if kind is DeviceKind.ADAPTER:
            node, _, adapter = name.partition(" ")
            name = f"{node.partition('.')[0]}/{adapter.strip()}"
        if guid not in excluded and (kind is DeviceKind.SWITCH or (kind is DeviceKind.ADAPTER and name in wanted)):
            names[guid] = name
    numbers = _port_numbers(links)
    times = Counter((name, numbers.get(guid)) for guid, name in names.items())
    own = {guid: name for guid, name in names.items() if name and name not in taken and not _FACTORY.search(name)}
    return {guid: name for guid, name in own.items() if times[name, numbers.get(guid)] == 1}


def _port_numbers(links: FabricLinks) -> dict[int, int]:
    """Return the port number of each adapter port: the ports of one adapter have the same description, but different GUIDs."""
    return {port.guid: port.number for port in links.far if links.kinds[port.guid] is DeviceKind.ADAPTER}


def _chip_names(links: FabricLinks) -> dict[int, str]:
    """Return the names of the chips of managed switches: the host name, with the chip's position if the switch has several."""
    found = {
        guid: chip for guid, kind in links.kinds.items() if kind is DeviceKind.SWITCH and (chip := _CHIP.match(links.descriptions[guid]))
    }
    places: dict[str, set[str]] = {}
    for chip in found.values():
        places.setdefault(chip["host"], set()).add(chip["path"] or "U1")
    return {
        guid: chip["host"] if places[chip["host"]] == {"U1"} else f"{chip['host']}/{chip['path'] or 'U1'}" for guid, chip in found.items()
    }


def _live_end(links: FabricLinks, port: PortId, names: Mapping[int, str]) -> CableEnd:
    """Return a port in the names of the plan. Chip names contain `/` as well, so the device type comes from the fabric or from the node."""
    name = names.get(port.guid)
    if name is None:
        return CableEnd(links.label(port.guid), port.number, links.kinds.get(port.guid, DeviceKind.OTHER))
    if port.guid not in links.kinds:
        return _end(name, port.number)
    kind = links.kinds[port.guid]
    return CableEnd(name, port.number, kind, name.partition("/")[0] if kind is DeviceKind.ADAPTER else None)


def _unassigned(links: FabricLinks, names: Mapping[int, str], nodes: Collection[str]) -> dict[str, str | None]:
    """Return label -> node (None if unknown) of the devices that may be in the plan, but have no unambiguous name."""
    numbers = _port_numbers(links)
    times = Counter((links.descriptions[guid], number) for guid, number in numbers.items())
    found: dict[str, str | None] = {}
    for guid in {port.guid for port in links.far} - names.keys():
        description, kind = links.descriptions[guid], links.kinds[guid]
        words = description.split()
        nameless = len(words) < 2 or bool(_FACTORY.search(description)) or times[description, numbers.get(guid, 0)] > 1
        if kind is DeviceKind.SWITCH or (kind is DeviceKind.ADAPTER and nameless):
            found[links.label(guid)] = None
        elif kind is DeviceKind.ADAPTER and words[0].partition(".")[0] in nodes:
            found[links.label(guid)] = words[0].partition(".")[0]
    return found
