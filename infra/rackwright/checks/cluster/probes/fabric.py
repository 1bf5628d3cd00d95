"""Probes of the fabric: ports from the adapters of each node, links and counters from the subnet. The tools are the stock ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe
from rackwright.report.fabric.adapter_ports import VIRTUAL_TYPES
from rackwright.report.fabric.ibnetdiscover import FabricLinks, PortId, read_links, unanswered_queries

LINK_LAYERS: Final = {"IB": "InfiniBand", "InfiniBand": "InfiniBand", "Ethernet": "Ethernet"}
"""Link layers as ibstat prints them, with their names in results. Simulated adapters print IB."""


@dataclass(frozen=True)
class Port:
    """Port 1 of an adapter, as ibstat prints it."""

    adapter: str
    state: str
    physical: str
    rate_gbps: float
    manager: int
    """LID of the subnet manager that configured the port; 0 where none did."""
    link_layer: str
    guid: int
    """GUID of the port, which identifies it in the fabric."""
    virtual: bool
    """Whether the adapter is a virtual function. Its link is the one of the physical function, and the fabric does not list it."""

    @property
    def up(self) -> bool:
        """Return whether the port carries traffic."""
        return self.state == "Active" and self.physical == "LinkUp"

    @property
    def rate(self) -> str:
        """Return the rate in words, as in `400 Gb/s`."""
        return f"{self.rate_gbps:g} Gb/s"


@cache
def parse_ports(text: str) -> tuple[Port, ...]:
    """Return the ports from ibstat's blocks, one for each adapter. No block is a valid output."""
    return tuple(_port(name, block) for name, block in re.findall(r"^CA '([^']+)'\n(.*?)(?=^\S|\Z)", text, re.M | re.S))


def _port(name: str, block: str) -> Port:
    adapter, _, port = block.partition("Port 1:")
    fields = dict(re.findall(r"^\s+([A-Z][\w ]+): *(.*?) *$", port.partition("Port 2:")[0], re.M))
    layer = fields["Link layer"]
    kind = re.search(r"^\s+CA type: *(.*?) *$", adapter, re.M)
    return Port(
        adapter=name,
        state=fields["State"],
        physical=fields["Physical state"],
        rate_gbps=float(fields["Rate"].split()[0]),
        manager=int(fields["SM lid"]),
        link_layer=str(LINK_LAYERS.get(layer, layer)),
        guid=int(fields["Port GUID"], 16),
        virtual=kind is not None and kind[1] in VIRTUAL_TYPES,
    )


PORTS = Probe("fabric-ports", on="fabric", command="ibstat", parse=parse_ports)


def _joined(command: str) -> str:
    """Return a command that prints the warnings of another one before its output. Written concurrently, both would mix within lines."""
    return f"{{ said=$({command} 2>&3); status=$?; }} 3>&1; printf '%s\\n' \"$said\"; exit $status"


LINKS = Probe("fabric-links", on="@observer", command=_joined("ibnetdiscover -p"), parse=read_links)

ERRORS: Final = frozenset(
    (
        *("SymbolErrorCounter", "LinkErrorRecoveryCounter", "PortRcvErrors", "PortRcvRemotePhysicalErrors"),
        *("LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors"),
    )
)
"""Counters of a bad cable, port or adapter. LinkDownedCounter also counts reboots of the neighbour; discards and waits count load."""


@dataclass(frozen=True)
class FailedQuery:
    """Counters that ibqueryerrors could not read."""

    lid: int
    port: int | None
    """Number of the port; None for all ports of the device."""
    line: str


@dataclass(frozen=True)
class Counters:
    """Error counters of a fabric."""

    errors: Mapping[PortId, tuple[str, ...]]
    """Listed ports with the counters of a bad link, as `SymbolErrorCounter 42`."""
    failed: tuple[FailedQuery, ...]
    unanswered: Mapping[str, str]
    """Devices that did not respond to the discovery of the fabric, so that their counters were not queried: route -> line."""
    unplaced: str
    """Line about failed queries of unnamed ports; empty if there are none."""

    def unread(self, links: FabricLinks) -> dict[PortId, str]:
        """Return the ports whose counters are unknown, with the line that reports it. A device is identified by its LID.

        Failed queries of devices that `links` lacks are ignored: those of aggregation nodes and routers inside switches often fail.
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
"""Queries after whose failure ibqueryerrors still queries the counters, and queries of details of counters that it has read."""


def parse_errors(text: str) -> Counters:
    """Return the ports that ibqueryerrors lists, and those that it could not query.

    For a switch, ibqueryerrors also prints all ports in one line, which is ignored: a line for each port follows. A port that it could not
    query counts as checked and is not listed. Each failed query has a warning, and the summary has their number.
    """
    if "## Summary" not in text:
        raise ValueError("no summary at the end")
    found: dict[PortId, tuple[str, ...]] = {}
    for guid, port, listed in re.findall(r"^\s+GUID 0x([0-9a-f]+) port (\d+): *(.*)$", text, re.M):
        counters = tuple(f"{counter} {count}" for counter, count in re.findall(r"\[(\w+) == (\d+)", listed) if counter in ERRORS)
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
    """The subnet manager that responds."""

    lid: int
    state: str


def parse_manager(text: str) -> Manager | None:
    """Return the subnet manager from sminfo's line; None where the subnet has none."""
    if found := re.search(r"sminfo: sm lid (\d+) .*SMINFO_(\w+)", text):
        return Manager(int(found[1]), found[2])
    if "failed: query" in text:
        return None
    raise ValueError("the subnet could not be queried")


MANAGER = Probe("fabric-manager", on="@observer", command="sminfo 2>&1", parse=parse_manager, statuses=frozenset({0, 255}))
