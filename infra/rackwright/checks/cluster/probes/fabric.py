"""The fabric: its ports as each node's adapters report them, its links as the subnet shows them. Stock tools, simulated or not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe
from rackwright.report.fabric_links import FabricLinks, PortId, read_links, unanswered_queries
from rackwright.report.fabric_ports import VIRTUAL_TYPES

LINK_LAYERS: Final = {"IB": "InfiniBand", "InfiniBand": "InfiniBand", "Ethernet": "Ethernet"}
"""What ibstat prints -> what is handed over; simulated adapters say IB."""


@dataclass(frozen=True)
class Port:
    """Port 1 of an adapter as ibstat shows it."""

    adapter: str
    state: str
    physical: str
    rate_gbps: float
    manager: int
    """LID of the subnet manager that set it up; 0 where none did."""
    link_layer: str
    guid: int
    """By which the fabric knows the port."""
    virtual: bool
    """Whether the adapter is a virtual function, whose link is that of its physical function: the fabric does not show it."""

    @property
    def up(self) -> bool:
        """Whether it carries traffic."""
        return self.state == "Active" and self.physical == "LinkUp"

    @property
    def rate(self) -> str:
        """Rate in words, as in `400 Gb/s`."""
        return f"{self.rate_gbps:g} Gb/s"


@cache
def parse_ports(text: str) -> tuple[Port, ...]:
    """ibstat's blocks, one for each adapter; none at all is an answer, too."""
    return tuple(_port(name, block) for name, block in re.findall(r"^CA '([^']+)'\n(.*?)(?=^\S|\Z)", text, re.M | re.S))


def _port(name: str, block: str) -> Port:
    adapter, _, port = block.partition("Port 1:")
    said = dict(re.findall(r"^\s+([A-Z][\w ]+): *(.*?) *$", port.partition("Port 2:")[0], re.M))
    layer = said["Link layer"]
    kind = re.search(r"^\s+CA type: *(.*?) *$", adapter, re.M)
    return Port(
        adapter=name,
        state=said["State"],
        physical=said["Physical state"],
        rate_gbps=float(said["Rate"].split()[0]),
        manager=int(said["SM lid"]),
        link_layer=str(LINK_LAYERS.get(layer, layer)),
        guid=int(said["Port GUID"], 16),
        virtual=kind is not None and kind[1] in VIRTUAL_TYPES,
    )


PORTS = Probe("fabric-ports", on="fabric", command="ibstat", parse=parse_ports)


def _joined(command: str) -> str:
    """Return a command that prints the warnings of another one, then its output: written at once, they cut each other's lines."""
    return f"{{ said=$({command} 2>&3); status=$?; }} 3>&1; printf '%s\\n' \"$said\"; exit $status"


LINKS = Probe("fabric-links", on="@observer", command=_joined("ibnetdiscover -p"), parse=read_links)

ERRORS: Final = frozenset(
    (
        *("SymbolErrorCounter", "LinkErrorRecoveryCounter", "PortRcvErrors", "PortRcvRemotePhysicalErrors"),
        *("LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors"),
    )
)
"""Counters of a bad cable, port or adapter. LinkDownedCounter also counts the reboots of its neighbour, discards and waits count load."""


@dataclass(frozen=True)
class FailedQuery:
    """Counters that ibqueryerrors could not read."""

    lid: int
    port: int | None
    """None: all ports of the device."""
    line: str


@dataclass(frozen=True)
class Counters:
    """Error counters of a fabric."""

    errors: Mapping[PortId, tuple[str, ...]]
    """Ports that are listed, with the counters that mean a bad link, as `SymbolErrorCounter 42`."""
    failed: tuple[FailedQuery, ...]
    unanswered: Mapping[str, str]
    """Devices that did not answer when the fabric was discovered, so that their counters were not asked for: route -> line."""
    unplaced: str
    """Line about failed queries of ports that are not named; empty if there are none."""

    def unread(self, links: FabricLinks) -> dict[PortId, str]:
        """Return the ports whose counters are unknown, with the line that says so. A device is known by its LID.

        Queries of devices that the links do not have concern nobody: aggregation nodes and routers inside switches often fail.
        """
        lost = self.unplaced or next((line for route, line in self.unanswered.items() if route not in links.unread), "")
        found = dict.fromkeys((port for port in links.far if lost and port not in self.errors), lost)
        for guid, lid in links.lids.items():
            for query in self.failed:
                if query.lid == lid:
                    ports = [PortId(guid, query.port)] if query.port is not None else [port for port in links.far if port.guid == guid]
                    found |= dict.fromkeys(ports, query.line)
        return found


_FAILED: Final = re.compile(r"^ibwarn: \[\d+\] \w+: (?P<what>\S+) query failed on .*?(?:, Lid (?P<lid>\d+)\b[^,]* port (?P<port>\d+))?\s*$")
"""IBWARN of ibqueryerrors.c, the same from infiniband-diags 1.5 to rdma-core 56; the end of portid2str (libibmad, portid.c)."""
_ALL_PORTS: Final = 255
"""Port number by which a query means all ports of a device: IB_PORT_ALL of infiniband-diags, InfiniBand specification volume 1, 16.1.3."""
_NOT_COUNTERS: Final = re.compile(r"^classportinfo$|Details$")
"""Queries after which ibqueryerrors still asks for the counters, and more about counters that it has."""


def parse_errors(text: str) -> Counters:
    """Ports that ibqueryerrors lists, and those that it could not query.

    Of a switch, it lists all ports in one line, too, which is left out: the line of the port follows. A port that it could not query counts
    as checked and is not listed: there is a warning for each failed query, and their number in the summary.
    """
    if "## Summary" not in text:
        raise ValueError("no summary at the end")
    found: dict[PortId, tuple[str, ...]] = {}
    for guid, port, said in re.findall(r"^\s+GUID 0x([0-9a-f]+) port (\d+): *(.*)$", text, re.M):
        counters = tuple(f"{counter} {count}" for counter, count in re.findall(r"\[(\w+) == (\d+)", said) if counter in ERRORS)
        found |= {PortId(int(guid, 16), int(port)): counters} if counters else {}
    warned = [query for line in text.splitlines() if (query := _FAILED.match(line))]
    blind = [query for query in warned if not _NOT_COUNTERS.search(query["what"])]
    total = re.search(r"^##\s+(\d+) PMA query failures.*$", text, re.M)
    unplaced = next((query[0] for query in blind if query["lid"] is None), "")
    if total and int(total[1]) > len(warned):
        unplaced = unplaced or total[0]
    return Counters(found, tuple(_failed(query) for query in blind if query["lid"]), unanswered_queries(text), unplaced.strip())


def _failed(query: re.Match[str]) -> FailedQuery:
    port = int(query["port"])
    return FailedQuery(int(query["lid"]), None if port == _ALL_PORTS else port, query[0].strip())


COUNTERS = Probe("fabric-errors", on="@observer", command=_joined("ibqueryerrors"), parse=parse_errors, statuses=frozenset({0, 1}))


@dataclass(frozen=True)
class Manager:
    """The subnet manager that answers."""

    lid: int
    state: str


def parse_manager(text: str) -> Manager | None:
    """sminfo's line; None where nobody manages the subnet."""
    if found := re.search(r"sminfo: sm lid (\d+) .*SMINFO_(\w+)", text):
        return Manager(int(found[1]), found[2])
    if "failed: query" in text:
        return None
    raise ValueError("the subnet could not be queried")


MANAGER = Probe("fabric-manager", on="@observer", command="sminfo 2>&1", parse=parse_manager, statuses=frozenset({0, 255}))
