"""Comparison of the links of a fabric with the planned cables: missing, misconnected, unplanned and unidentifiable ones. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from rackwright.report.fabric.device_names import CableEnd, LiveFabric, assigned, end_of
from rackwright.report.fabric.ibnetdiscover import DeviceKind, FabricLinks

NODE_NAME_MAP: Final = "/etc/rdma/ib-node-name-map"
"""Path at which the tools of rdma-core read a node-name map (util/node_name_map.c; `IBDIAG_NODENAME_MAP_PATH` of its CMakeLists.txt)."""


class Kind(StrEnum):
    """How a cable differs from the plan."""

    MISSING = "missing"
    """Neither end has a link."""
    MOVED = "moved"
    """One end is connected to another port than planned."""
    SLOW = "slow"
    """The planned link has another width or speed."""
    UNPLANNED = "unplanned"
    """A link between ports that are not in the plan."""


class Difference(NamedTuple):
    """A cable that differs from the plan."""

    kind: Kind
    end: CableEnd
    """The end nearer to the nodes, or the misconnected one."""
    planned: CableEnd | None
    found: CableEnd | None
    rate: str = ""
    """Width and speed of a slow link."""

    @property
    def node(self) -> str | None:
        """Node at one of the ends, or None for a cable between switches."""
        return self.end.node or (self.planned.node if self.planned else None)

    @property
    def is_between_switches(self) -> bool:
        """Return whether the cable is between switches: the planned one, or the unplanned link."""
        other = self.planned or self.found
        return self.end.kind is DeviceKind.SWITCH and other is not None and other.kind is DeviceKind.SWITCH

    def as_dict(self) -> dict[str, str | None]:
        """Return the difference as data for JSON."""
        data = {"end": self.end, "planned": self.planned, "found": self.found}
        return {"kind": self.kind.value, **{key: None if end is None else str(end) for key, end in data.items()}, "rate": self.rate or None}

    def __str__(self) -> str:
        return {
            Kind.MISSING: f"{self.end} - {self.planned} is missing",
            Kind.MOVED: f"{self.end} is connected to {self.found} (expected {self.planned})",
            Kind.SLOW: f"{self.end} - {self.planned} runs at {self.rate}",
            Kind.UNPLANNED: f"{self.end} - {self.found} is not planned",
        }[self.kind]


class Cable(NamedTuple):
    """A planned cable, the end nearer to the nodes first."""

    near: CableEnd
    far: CableEnd


@dataclass(frozen=True, eq=False)
class Comparison:
    """Differences that are certain, and the cables that could not be compared."""

    live: LiveFabric
    differences: tuple[Difference, ...]
    unknown: tuple[Cable, ...]
    unrated: tuple[CableEnd, ...] = ()
    """Ends of planned links whose rate the tool does not know."""
    others: tuple[Difference, ...] = ()
    """Links of adapters that the plan does not have, such as those of storage servers, at ports that it does not use."""

    @property
    def why_unknown(self) -> str:
        """Return which devices could not be identified."""
        found = [
            *_unanswered(self.live.links.unread),
            *self.live.links.unsure[:1],
            *(f"the tool does not know the rate of {end} ({self.live.unrated[end]})" for end in self.unrated[:1]),
            *(f"the catalogue does not know how the chips of {name} count its ports" for name in sorted(self.live.unplaced)[:3]),
            *_unnamed(self.live.unnamed(DeviceKind.SWITCH), "switch has", "switches have"),
            *_unnamed(self.live.unnamed(DeviceKind.ADAPTER), "adapter has", "adapters have"),
        ]
        return f"{len(self.unknown)} planned cables cannot be compared: {'; '.join(found) or 'their adapters are virtual functions'}"


def _unanswered(unread: Mapping[str, str]) -> Iterable[str]:
    if unread:
        yield f'{len(unread)} {"devices" if len(unread) > 1 else "device"} did not answer ("{next(iter(unread.values()))}")'


def _unnamed(labels: list[str], one: str, many: str) -> Iterable[str]:
    if labels:
        shown = ", ".join(labels[:3]) + (f" and {len(labels) - 3} more" if len(labels) > 3 else "")
        yield f"{len(labels)} {many if len(labels) > 1 else one} neither a name nor a GUID of the plan ({shown})"


def ends(row: str) -> Cable:
    """Return both ends of a cable in the inventory.

    >>> [str(end) for end in ends("worker0/mlx5_3:1 leaf-su1-r3:1")]
    ['worker0/mlx5_3:1', 'leaf-su1-r3:1']
    """
    near, far = row.split()
    return Cable(end_of(near), end_of(far))


def compare(
    rows: Iterable[str],
    links: FabricLinks,
    *,
    guids: Mapping[str, int] | None = None,
    hidden: Collection[str] = (),
    rate: str = "",
    switch_rate: str = "",
    line_card: str = "",
) -> Comparison:
    """Compare planned cables, in their order, with the links; differences of planned cables come first, then unplanned links.

    A link of an adapter that is not in the plan is no difference, unless it occupies a port of the plan.

    `guids`: port GUIDs by device. `hidden`: adapters that a fabric does not show, virtual functions. `rate`: report links at another one;
    `switch_rate`: the same for links between switches, where they differ. `line_card`: that of director switches, as 2x18.
    """
    planned = [ends(row) for row in rows]
    live = assigned(links, (end for cable in planned for end in cable), guids or {}, hidden, line_card)
    possible = _possible(live)
    differences: list[Difference] = []
    unknown: list[Cable] = []
    unrated = [cable.near for cable in planned if rate and live.far.get(cable.near) == cable.far and cable.near in live.unrated]
    for cable in planned:
        if cable.near.device in hidden or cable.near in unrated or _is_possible(cable, live, possible):
            unknown.append(cable)
        elif difference := _compared(*cable, live, rate if cable.near.node else switch_rate or rate):
            if difference.kind is Kind.MISSING and live.may_be_unread(*cable):
                unknown.append(cable)
            else:
                differences.append(difference)
    unplanned = list(_unplanned(planned, unknown, live))
    devices = {end.device for cable in planned for end in cable}
    others = [one for one in unplanned if _is_foreign(one, devices)]
    differences += [one for one in unplanned if one not in others]
    return Comparison(live, tuple(differences), tuple(unknown), tuple(unrated), tuple(others))


def _is_foreign(link: Difference, devices: Collection[str]) -> bool:
    """Return whether an end of an unplanned link is an adapter, a router or a gateway that is not in the plan."""
    return any(end.kind is not DeviceKind.SWITCH and end.device not in devices for end in (link.end, link.found) if end)


def _unplanned(planned: Iterable[Cable], unknown: Iterable[Cable], live: LiveFabric) -> Iterable[Difference]:
    """Return links between ports that are not in the plan, without links that may be a cable that could not be compared."""
    known = {end for cable in planned for end in cable}
    strays = {_ordered(one, other) for one, other in live.far.items() if one not in known and other not in known}
    for near, far in sorted(strays):
        unreliable = {near.device, far.device} & (live.unassigned.keys() | (live.chips.keys() if live.unplaced else set()))
        if not (unreliable and unknown):
            yield Difference(Kind.UNPLANNED, near, None, far)


_Shape = tuple[DeviceKind, int, str | None, DeviceKind, int, str | None]
"""Kind, port and node of both ends of a link between two devices that could not be identified."""


def _possible(live: LiveFabric) -> frozenset[_Shape]:
    loose = live.unassigned
    return frozenset(
        (one.kind, one.port, loose[one.device], other.kind, other.port, loose[other.device])
        for one, other in live.far.items()
        if one.device in loose and other.device in loose
    )


def _is_possible(cable: Cable, live: LiveFabric, possible: frozenset[_Shape]) -> bool:
    """Return whether the cable may be as planned although it is not found, because one end cannot be distinguished from others."""
    near, far = cable
    if near.device in live.unplaced or (far.device in live.unplaced and near.device not in live.identified):
        return True
    if near.device in live.identified:
        found = live.far.get(near)
        return found is not None and live.may_be(found, far)
    if far.device in live.identified:
        found = live.far.get(far)
        return found is not None and live.may_be(found, near)
    return any(
        (near.kind, near.port, node, far.kind, far.port, other) in possible for node in {None, near.node} for other in {None, far.node}
    )


def _compared(near: CableEnd, far: CableEnd, live: LiveFabric, rate: str) -> Difference | None:
    """Return the difference of a planned cable, or None. If only its far end is misconnected, name that end."""
    if live.far.get(near) == far:
        slow = rate and live.rates.get(near, rate) != rate
        return Difference(Kind.SLOW, near, far, far, live.rates[near]) if slow else None
    if near in live.far:
        return Difference(Kind.MOVED, near, far, live.far[near])
    if far in live.far:
        return Difference(Kind.MOVED, far, near, live.far[far])
    return Difference(Kind.MISSING, near, far, None)


def _ordered(one: CableEnd, other: CableEnd) -> Cable:
    adapters = [end.kind is DeviceKind.ADAPTER for end in (one, other)]
    first = one < other if adapters[0] == adapters[1] else adapters[0]
    return Cable(one, other) if first else Cable(other, one)
