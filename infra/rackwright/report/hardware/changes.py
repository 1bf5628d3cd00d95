"""Changes between two hardware reports. GPUs are joined by UUID, adapters by node GUID, disks by their by-id names, interfaces by MAC.

Names (`GPU0`, `mlx5_0`, `nvme0n1`, `ens1f0`) never join: drivers number devices again at each start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from rackwright.report.hardware.facts import Part
from rackwright.report.verdict import Verdict

Report = Mapping[str, Any]
_KINDS: Final = {Part.GPUS: "GPU", Part.RDMA: "adapter", Part.DISKS: "disk", Part.INTERFACES: "interface"}
"""Parts with identities, and what one of their devices is called."""
_NAMES_MATTER: Final = frozenset({Part.RDMA, Part.INTERFACES})
"""Parts whose names are in configurations: rails, NCCL_IB_HCA, network files."""
_GUID_BYTES: Final = 8
"""Bytes of a port's GUID at the end of an address of IP over InfiniBand, whose first bytes change (RFC 4391, 9.1.1)."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a node. `keys`: its identities; two devices with a common one are the same device."""

    part: Part
    keys: frozenset[str]
    node: str
    name: str
    bus: str

    @property
    def place(self) -> str:
        """Return node and PCI address."""
        return f"{self.node} {self.bus}".rstrip()


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a device. `before` and `after`: node and PCI address, or node and name; empty where the device is not."""

    kind: str
    identity: str
    change: str
    """missing, new, moved, renamed, or replaced: another device at the same place."""
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Changes, reasons why others are unknown, and devices that have no identity."""

    since: str
    changes: tuple[Change, ...]
    unknown: tuple[str, ...]
    not_compared: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """Return passed if every device with an identity is in both reports, at the same place and with the same name."""
        if self.unknown:
            return Verdict.UNKNOWN
        return Verdict.FAILED if self.changes else Verdict.PASSED

    def data(self) -> dict[str, Any]:
        """Return the comparison as a part of the contract `rackwright.hardware/4`."""
        listed = {"unknown": list(self.unknown), "not_compared": list(self.not_compared)}
        return {"since": self.since, "changes": [asdict(one) for one in self.changes], **listed, "verdict": self.verdict.value}


def compare(before: Report, after: Report) -> Comparison:
    """Compare the devices of two reports of one stack, of the parts that both reports show. Simulated parts are left out."""
    changes, unknown, without = list[Change](), list[str](), list[str]()
    parts = [part for part in _KINDS if all(_shows(report, part) for report in (before, after))]
    if not parts:
        unknown.append("the reports have no part in common whose devices have an identity")
    for part in parts:
        doubts = _unread(before, part) | _unread(after, part)
        unknown += [f"{_KINDS[part]}s of {node}: {why}" for node, why in sorted(doubts.items())]
        old, new = (_devices(report, part) for report in (before, after))
        without += [f"{one.node}: {_KINDS[part]} {one.name} has no identity" for one in new if not one.keys and one.node not in doubts]
        twins = _twins(old) | _twins(new)
        unknown += [f"{_KINDS[part]} {key} is on {' and '.join(nodes)}" for key, nodes in sorted(twins.items())]
        changes += _changes(_known(old, twins), _known(new, twins), doubts)
    return Comparison(before["started"], tuple(changes), tuple(unknown), tuple(without))


def _shows(report: Report, part: Part) -> bool:
    shown: Collection[str] = report["nodes"][0]["facts"] if report["nodes"] else ()
    return part.value in shown and part.value not in report["simulated"]


def _unread(report: Report, part: Part) -> dict[str, str]:
    """Return nodes whose devices were not all read, with the reason."""
    found = {node["name"]: node["reason"] or node["unknown"].get(part.value, "") for node in report["nodes"]}
    return {name: f"{why} ({report['started']})" for name, why in found.items() if why}


def _devices(report: Report, part: Part) -> list[Device]:
    """Return the devices. Rows of one node with a common identity are one device, such as an Azure interface and its virtual function."""
    found: list[Device] = []
    for node in report["nodes"]:
        own: list[Device] = []
        for row in node["facts"][part.value] or ():
            if part is Part.INTERFACES and not row["driver"]:
                continue
            one = _device(part, node["name"], row)
            same = next((index for index, other in enumerate(own) if other.keys & one.keys), None)
            if same is None:
                own.append(one)
            else:
                own[same] = _joined(own[same], one)
        found += own
    return found


def _joined(one: Device, other: Device) -> Device:
    name, bus = (" ".join(sorted({*first.split(), *second.split()})) for first, second in ((one.name, other.name), (one.bus, other.bus)))
    return replace(one, keys=one.keys | other.keys, name=name, bus=bus)


def _device(part: Part, node: str, row: Mapping[str, Any]) -> Device:
    match part:
        case Part.GPUS:
            keys, name, bus = [row["uuid"]], f"GPU{row['index']}", _short(row["bus"] or "")
        case Part.RDMA:
            keys, name, bus = [row["node_guid"]], row["device"], row["bus"]
        case Part.DISKS:
            keys, name, bus = row["ids"], row["name"], ""
        case _:
            keys, name, bus = [_address(row["mac"])], row["name"], row["bus"]
    return Device(part, frozenset(key for key in keys if key), node, name, bus)


def _short(bus: str) -> str:
    """Return a PCI address with a domain of four digits, as the kernel prints it; nvidia-smi prints eight.

    >>> _short("00000000:1B:00.0")
    '0000:1b:00.0'
    """
    domain, colon, rest = bus.lower().partition(":")
    return f"{domain[-4:] if domain.startswith('0000') else domain}{colon}{rest}"


def _address(mac: str | None) -> str | None:
    parts = (mac or "").split(":")
    return ":".join(parts[-_GUID_BYTES:]) if len(parts) > _GUID_BYTES else mac


def _twins(devices: Iterable[Device]) -> dict[str, tuple[str, ...]]:
    """Return identities that several nodes have, with the nodes."""
    owners: dict[str, set[str]] = {}
    for one in devices:
        for key in one.keys:
            owners.setdefault(key, set()).add(one.node)
    return {key: tuple(sorted(nodes)) for key, nodes in owners.items() if len(nodes) > 1}


def _known(devices: Iterable[Device], twins: Collection[str]) -> list[Device]:
    return [one for one in devices if one.keys and not one.keys.intersection(twins)]


def _changes(old: list[Device], new: list[Device], doubts: Collection[str]) -> Iterator[Change]:
    pairs = [(one, other) for one in old for other in new if one.keys & other.keys]
    gone = [one for one in old if not any(one is first for first, _ in pairs) and one.node not in doubts]
    added = [one for one in new if not any(one is second for _, second in pairs) and one.node not in doubts]
    for one, other in pairs:
        if one.place != other.place:
            yield _change(one, "moved", one.place, other.place)
        elif one.name != other.name and one.part in _NAMES_MATTER:
            yield _change(one, "renamed", f"{one.node} {one.name}", f"{other.node} {other.name}")
    for one in gone:
        successor = next((other for other in added if one.bus and other.place == one.place), None)
        if successor is not None:
            added.remove(successor)
            yield _change(one, "replaced", one.place, f"{successor.place} {_identity(successor)}")
        else:
            yield _change(one, "missing", one.place, "")
    for one in added:
        yield _change(one, "new", "", one.place)


def _change(one: Device, change: str, before: str, after: str) -> Change:
    return Change(_KINDS[one.part], _identity(one), change, before, after)


def _identity(one: Device) -> str:
    """Return the first identity; World Wide Names come first, because udev derives the others from the model."""
    return min(one.keys, key=lambda key: (not key.startswith(("wwn-", "nvme-eui.")), key))
