"""Probes of the fabric: ports from the adapters of each node, links and counters from the subnet. The tools are the stock ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeVar

from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.harness.tool_output import UnreadableValue, decimal, hexadecimal, integer, quoted, whole_lines, words
from rackwright.checks.cluster.probes.fabric_commands import on_each_subnet, patience, unpacked
from rackwright.report.fabric.ibnetdiscover import FabricLinks, guid_text, read_links
from rackwright.report.fabric.ibstat import NO_ADAPTER, VIRTUAL_TYPES, AdapterBlock, read_ibstat

T = TypeVar("T")

LINK_LAYERS: Final = {"IB": "InfiniBand", "InfiniBand": "InfiniBand", "Ethernet": "Ethernet"}
"""Link layers as ibstat prints them, with their names in results. Simulated adapters print IB."""
_ACTIVE: Final = "Active"
ACTIVE: Final = f"{_ACTIVE}, LinkUp"
"""Status of a port that carries traffic."""
_STATES: Final = frozenset({"Down", "Initializing", "Armed", "Active"})
_PHYSICAL: Final = frozenset(
    {"No state change", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp", "LinkErrorRecovery", "PhyTest"}
)
"""States of ports (ibstat.c of rdma-core 56: port_state_str, port_phy_state_str). For any other number, ibstat prints ???."""


@dataclass(frozen=True)
class Port:
    """Port 1 of an adapter, as ibstat prints it. A value that could not be read is an UnreadableValue."""

    adapter: str
    state: str | UnreadableValue
    physical: str | UnreadableValue
    rate_gbps: float | UnreadableValue
    manager: int | UnreadableValue
    """LID of the subnet manager that configured the port; 0 where none did."""
    link_layer: str | UnreadableValue
    guid: int | UnreadableValue
    """GUID of the port, which identifies it in the fabric."""
    virtual: bool | UnreadableValue
    """Whether the adapter is a virtual function. Its link is the one of the physical function, and the fabric does not list it."""

    @property
    def status(self) -> str | UnreadableValue:
        """Return logical and physical state, as in `Down, Polling`. A port that is not active is not, whatever its physical state."""
        if isinstance(self.state, UnreadableValue):
            return self.state
        if isinstance(self.physical, UnreadableValue):
            return self.physical if self.state == _ACTIVE else f"{self.state}, {self.physical}"
        return f"{self.state}, {self.physical}"

    @property
    def up(self) -> bool:
        """Return whether the port carries traffic, as far as its states were read."""
        return not isinstance(self.status, UnreadableValue) and self.status == ACTIVE

    @property
    def guid_text(self) -> str | UnreadableValue:
        """Return the GUID of the port as the tools print it."""
        return self.guid if isinstance(self.guid, UnreadableValue) else guid_text(self.guid)

    @property
    def rate(self) -> str | UnreadableValue:
        """Return the rate in words, as in `400 Gb/s`."""
        return self.rate_gbps if isinstance(self.rate_gbps, UnreadableValue) else f"{self.rate_gbps:g} Gb/s"


class Ports(tuple[Port, ...]):
    """Ports of the adapters that were read. If a title was not read, it is unknown whether another adapter is missing."""

    unread: tuple[str, ...]
    """Rows of an adapter whose title is missing."""

    def __new__(cls, ports: Iterable[Port] = (), unread: tuple[str, ...] = ()) -> Ports:
        """Return the ports with the rows that belong to none."""
        made = super().__new__(cls, tuple(ports))
        made.unread = unread
        return made

    def present(self, adapter: str) -> str | UnreadableValue:
        """Return whether an adapter is listed."""
        if any(port.adapter == adapter for port in self):
            return "present"
        return UnreadableValue(f"the presence of {adapter}", None, self.unread[0]) if self.unread else "missing"


@cache
def parse_ports(text: str) -> Ports:
    """Return port 1 of each adapter that ibstat lists or fails to read. No adapter is a valid output, messages alone are not."""
    lines, cut = whole_lines(text)
    found = read_ibstat(lines)
    if not found.adapters and not found.failed and (said := next((line for line in lines if not NO_ADAPTER.search(line)), "")):
        raise ValueError(f'no adapter: "{quoted(said)}"')
    ports = [_port(block, cut) for block in found.adapters.values()]
    ports += [_unread_port(name, line) for name, line in found.failed.items() if name not in found.adapters]
    return Ports(ports, found.strays)


def _port(block: AdapterBlock, cut: list[str]) -> Port:
    cells = block.ports.get(1, {})

    def read(name: str, form: Callable[[str], T]) -> T | UnreadableValue:
        said = cells.get(name, ())
        try:
            if len(said) == 1:
                return form(said[0])
        except (ValueError, IndexError):
            pass
        return UnreadableValue(f"{name} of {block.name}", " and ".join(said) if said else None, cut[0] if cut and not said else "")

    kind = block.cells.get("type", ())
    return Port(
        adapter=block.name,
        state=read("State", lambda cell: _known(cell, _STATES)),
        physical=read("Physical state", lambda cell: _known(cell, _PHYSICAL)),
        rate_gbps=read("Rate", lambda cell: decimal(cell.split()[0])),
        manager=read("SM lid", integer),
        link_layer=read("Link layer", lambda cell: LINK_LAYERS.get(words(cell), cell)),
        guid=read("Port GUID", _guid),
        virtual=kind[0] in VIRTUAL_TYPES if len(kind) == 1 else UnreadableValue(f"type of {block.name}", None, ""),
    )


def _known(cell: str, names: frozenset[str]) -> str:
    if cell not in names:
        raise ValueError(f'"{cell}" is not a state')
    return cell


def _guid(cell: str) -> int:
    """Return a GUID of 8 bytes."""
    if len(cell) != len("0x0123456789abcdef"):
        raise ValueError(f'"{cell}" is no GUID')
    return hexadecimal(cell)


def _unread_port(adapter: str, line: str) -> Port:
    """Return the port of an adapter that ibstat could not read."""

    def unread(name: str) -> UnreadableValue:
        return UnreadableValue(f"{name} of {adapter}", None, line)

    return Port(adapter, *map(unread, ("State", "Physical state", "Rate", "SM lid", "Link layer", "Port GUID", "type")))


SIMULATED: Final = "/etc/rackwright/simulated-fabric.conf"
"""File on the nodes of a simulated fabric, which the kernel does not list (roles/fabric)."""
# Before rdma-core 54, ibstat ends at the first adapter that it cannot read. Then each adapter is read by itself.
_IBSTAT: Final = (
    "{ said=$(ibstat 2>&3); status=$?; } 3>&1; printf '%s\n' \"$said\"; "
    f"case $status in 0|126|127) exit $status;; esac; [ ! -e {SIMULATED} ] || exit $status; [ -d /sys/class/infiniband ] || exit 0; "
    'names=$(ibstat -l) || exit $status; for name in $names; do ibstat "$name" 2>&1; done; exit 0'
)
PORTS = Probe("fabric-ports", on="fabric", command=_IBSTAT, parse=parse_ports)


def parse_links(text: str) -> FabricLinks:
    """Return the links of all subnets."""
    return read_links(unpacked(text))


LINKS = Probe("fabric-links", on="@observer", command=on_each_subnet("ibnetdiscover -p"), parse=parse_links, planned_timeout=patience(500))
"""The time limit is chosen: fabrics of some thousand ports are discovered within seconds, one query at a time and route."""


@dataclass(frozen=True)
class Manager:
    """The subnet manager that responds."""

    lid: int
    state: str


def parse_manager(text: str) -> Manager | None:
    """Return the subnet manager from sminfo's lines: the one that is not the master, if several subnets have one. None without one."""
    found = [Manager(int(lid), state) for lid, state in re.findall(r"sminfo: sm lid (\d+) .*SMINFO_(\w+)", text)]
    if "failed: query" in text:
        return None
    if not found:
        raise ValueError("the subnet could not be queried")
    return next((manager for manager in found if manager.state != "MASTER"), found[0])


MANAGER = Probe("fabric-manager", on="@observer", command=on_each_subnet("sminfo"), parse=parse_manager)
