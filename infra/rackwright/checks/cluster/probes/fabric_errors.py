"""Probe of the error counters of all ports of the fabric, read row by row.

Forms: ibqueryerrors.c of rdma-core 56 and of infiniband-diags 1.5. A port that could not be queried is not listed, but has a warning.
The summary has the number of queries that failed, and of ports that are listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext
from rackwright.checks.cluster.harness.tool_output import lines_of, quoted
from rackwright.checks.cluster.probes.fabric_commands import on_each_subnet, patience, unpacked
from rackwright.report.fabric.ibnetdiscover import FabricLinks, PortId, unanswered_queries

ERRORS: Final = frozenset(
    (
        *("SymbolErrorCounter", "LinkErrorRecoveryCounter", "PortRcvErrors", "PortRcvRemotePhysicalErrors"),
        *("LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors"),
    )
)
"""Counters of a bad cable, port or adapter. LinkDownedCounter also counts reboots of the neighbour; discards and waits count load."""
_OTHERS: Final = frozenset(
    (
        *("LinkDownedCounter", "PortRcvSwitchRelayErrors", "PortXmitDiscards", "PortXmitConstraintErrors", "PortRcvConstraintErrors"),
        *("VL15Dropped", "QP1Dropped", "PortXmitWait"),
    )
)
"""The other counters that ibqueryerrors lists (libibmad, fields.c): reboots, load, partitions."""


Counts = dict[str, int]
"""Counter of a bad link -> its value."""
BASELINE: Final = "/etc/rackwright/fabric-errors.baseline"
"""File on the observer with an earlier output of ibqueryerrors, whose errors have been dealt with."""
_BASELINE: Final = "== baseline"
_MAXIMA: Final = frozenset({2**4 - 1, 2**8 - 1, 2**16 - 1, 2**32 - 1, 2**64 - 1})
"""Values at which counters stop (InfiniBand specification volume 1, PortCounters and PortCountersExtended; libibmad, fields.c)."""


@dataclass(frozen=True)
class FailedQuery:
    """Counters that ibqueryerrors could not read."""

    lid: int
    port: int | None
    """Number of the port; None for all ports of the device."""
    line: str


@dataclass
class Unlisted:
    """Reasons why counters are unknown, by what they concern."""

    failed: tuple[FailedQuery, ...] = ()
    unanswered: Mapping[str, str] = field(default_factory=dict)
    """Devices that did not respond to the discovery of the fabric, so that their counters were not queried: route -> line."""
    ports: dict[PortId, str] = field(default_factory=dict)
    """Port -> its row, whose counters were not read."""
    devices: dict[int, str] = field(default_factory=dict)
    """GUID of a switch -> a row of one of its ports."""
    names: dict[str, str] = field(default_factory=dict)
    """Description of an adapter -> a row of one of its ports."""
    unplaced: str = ""
    """A line that may concern any port; empty if there is none."""

    def of_device(self, guid: int, links: FabricLinks) -> Iterator[tuple[int | None, str]]:
        """Yield the number of a port (None: every port) and the line."""
        yield from ((query.port, query.line) for query in self.failed if query.lid == links.lids.get(guid))
        yield from ((None, self.devices[guid]) for _ in range(guid in self.devices))
        name = links.descriptions.get(guid, "")
        yield from ((None, self.names[name]) for _ in range(name in self.names))


@dataclass(frozen=True)
class Counters:
    """Error counters of a fabric."""

    errors: Mapping[PortId, tuple[str, ...]]
    """Listed ports with the counters of a bad link, as `SymbolErrorCounter 42`."""
    unread: Unlisted

    def unread_ports(self, links: FabricLinks) -> dict[PortId, str]:
        """Return the ports whose counters are unknown, with the line that reports it. A failed query names its device by LID.

        Failed queries of devices that `links` lacks are ignored: those of aggregation nodes and routers inside switches often fail.
        """
        unread = self.unread
        nameless = (line for name, line in unread.names.items() if name not in links.descriptions.values())
        unanswered = (line for route, line in unread.unanswered.items() if route not in links.unread)
        lost = unread.unplaced or next(nameless, "") or next(unanswered, "")
        found = dict.fromkeys((port for port in links.far if lost and port not in self.errors), lost)
        for guid in {port.guid for port in links.far} | links.lids.keys():
            for number, line in unread.of_device(guid, links):
                ports = [PortId(guid, number)] if number is not None else [port for port in links.far if port.guid == guid]
                found |= dict.fromkeys(ports, line)
        return found | unread.ports


_FAILED: Final = re.compile(r"^ibwarn: \[\d+\] \w+: (?P<what>\S+) query failed on .*?(?:, Lid (?P<lid>\d+)\b[^,]* port (?P<port>\d+))?\s*$")
"""IBWARN of ibqueryerrors.c, the same from infiniband-diags 1.5 to rdma-core 56; the end of portid2str (libibmad, portid.c)."""
_ALL_PORTS: Final = 255
"""Port number by which a query means all ports of a device: IB_PORT_ALL of infiniband-diags, InfiniBand specification volume 1, 16.1.3."""
_NOT_COUNTERS: Final = re.compile(r"^classportinfo$|Details$")
"""Queries after whose failure ibqueryerrors still queries the counters, and queries of details of counters that it has read."""
_DEVICE: Final = re.compile(r'^Errors for (?:0x(?P<guid>[0-9a-f]+) )?"(?P<name>.*)"\s*$')
_PORT: Final = re.compile(r"^\s+GUID 0x(?P<guid>[0-9a-f]+) port (?P<port>\d+|ALL):(?P<counters>.*)$")
_COUNTER: Final = re.compile(r"\s*\[(?P<name>\w+) == (?P<count>\d+)(?: \([^)\]]*\))?\]")
_ROW_LIKE: Final = re.compile(r"^\s+GUID\b|^\s+\S+ 0x[0-9a-f]+ port\b|^Errors for| == ")
_BAD_PORTS: Final = r"^##\s+\d+ ports checked, (\d+) ports have errors"
_BAD_NODES: Final = r"^## Summary: \d+ nodes checked, (\d+) bad nodes"
_NO_QUERY: Final = re.compile(r"^(?!ibwarn:).*\b[Ff]ailed\b")
"""`Query SA failed: …`, `discover failed`: no port was queried."""


def parse_errors(text: str) -> Counters:
    """Return the ports that ibqueryerrors lists, and those whose counters are unknown.

    For a switch, ibqueryerrors also prints all ports in one row, which is ignored: a row for each port follows. Errors that a baseline
    lists are left out: an earlier output, after the line `== baseline`.
    """
    lines = lines_of(unpacked(text))
    place = lines.index(_BASELINE) if _BASELINE in lines else len(lines)
    lines, earlier = lines[:place], lines[place + 1 :]
    if not any("## Summary" in line for line in lines):
        raise ValueError("no summary at the end")
    warned = [query for line in lines if (query := _FAILED.match(line))]
    blind = [query for query in warned if not _NOT_COUNTERS.search(query["what"])]
    unread = Unlisted(tuple(_failed(query) for query in blind if query["lid"]), unanswered_queries("\n".join(lines)))
    counts, listed = _read_rows([line for line in lines if not _FAILED.match(line)], unread)
    unread.unplaced = (
        next((query[0] for query in blind if query["lid"] is None), "")
        or unread.unplaced
        or _lost_rows(lines, (r"^##\s+(\d+) PMA query failures", len(warned)))
        or _lost_rows(lines, (_BAD_PORTS, listed), (_BAD_NODES, sum(line.startswith("Errors for") for line in lines)), required=True)
        or next((line for line in lines if _NO_QUERY.match(line)), "")
    ).strip()
    return Counters(_since(counts, _read_rows(earlier, Unlisted())[0], unread), unread)


def _since(counts: Mapping[PortId, Counts], earlier: Mapping[PortId, Counts], unread: Unlisted) -> dict[PortId, tuple[str, ...]]:
    """Return the errors that the baseline lacks. A counter below its baseline was cleared, and one at its maximum counts no more."""
    errors: dict[PortId, tuple[str, ...]] = {}
    for port, now in counts.items():
        before = earlier.get(port, {})
        found = tuple(
            f"{name} {count}" + (f" (baseline {before[name]})" if before.get(name) else "")
            for name, count in now.items()
            if count != before.get(name, 0)
        )
        errors |= {port: found} if found else {}
        for name, count in now.items():
            if count == before.get(name) and count in _MAXIMA:
                unread.ports.setdefault(port, f"{name} {count} is the counter's maximum, in the baseline, too")
    return errors


def _read_rows(lines: Iterable[str], unread: Unlisted) -> tuple[dict[PortId, Counts], int]:
    """Return the counters of a bad link by port, and the number of ports that have a row. Rows that were not read are added to `unread`."""
    errors: dict[PortId, Counts] = {}
    ports: set[object] = set()
    device: re.Match[str] | None = None
    for line in lines:
        if title := _DEVICE.match(line):
            device = title
        elif row := _PORT.match(line):
            if row["port"] != "ALL":
                port = PortId(int(row["guid"], 16), int(row["port"]))
                ports.add(port)
                found, whole = _counters(row["counters"])
                errors |= {port: found} if found else {}
                unread.ports |= {} if whole else {port: quoted(line)}
        elif _ROW_LIKE.search(line) and "port ALL" not in line:
            ports.add(line)
            _add_unread(line, device if not line.startswith("Errors") else None, unread)
            device = None if line.startswith("Errors") else device
    return errors, len(ports)


def _counters(text: str) -> tuple[Counts, bool]:
    """Return the counters of a bad link, and whether all counters were read."""
    counters = list(_COUNTER.finditer(text))
    found = {one["name"]: int(one["count"]) for one in counters if one["name"] in ERRORS and int(one["count"])}
    named = all(one["name"] in ERRORS | _OTHERS for one in counters)
    return found, named and bool(counters) and not _COUNTER.sub("", text).strip()


def _add_unread(line: str, device: re.Match[str] | None, unread: Unlisted) -> None:
    """Add a row that was not read to the ports that it may concern."""
    if device is None:
        unread.unplaced = unread.unplaced or quoted(line)
    elif device["guid"]:
        unread.devices[int(device["guid"], 16)] = quoted(line)
    else:
        unread.names[device["name"]] = quoted(line)


def _lost_rows(lines: Iterable[str], *totals: tuple[str, int], required: bool = False) -> str:
    """Return the line of the summary that counts more rows than are listed; else an empty text. The first total that is there counts."""
    for summary, listed in totals:
        if found := [total for line in lines if (total := re.match(summary, line))]:
            return found[-1].string if sum(int(total[1]) for total in found) > listed else ""
    return "the summary does not say how many ports have errors" if required else ""


def _failed(query: re.Match[str]) -> FailedQuery:
    port = int(query["port"])
    return FailedQuery(int(query["lid"]), None if port == _ALL_PORTS else port, query[0].strip())


def _command(place: ProbeContext) -> str:
    """Return the command that also prints the baseline."""
    return f"( {on_each_subnet('ibqueryerrors')(place)} ) || exit $?; [ ! -e {BASELINE} ] || {{ echo '{_BASELINE}'; cat {BASELINE}; }}"


COUNTERS = Probe("fabric-errors", on="@observer", command=_command, parse=parse_errors, planned_timeout=patience(100))
"""The time limit is chosen: two or more queries for each device, one after the other."""
