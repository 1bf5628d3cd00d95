"""The fabric: its ports as each node's adapters report them, its links as the subnet shows them. Stock tools, simulated or not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cluster.harness.probe import Probe
from rackwright.report.fabric_diff import End, device, read

LINK_LAYERS: Final = {"IB": "InfiniBand", "InfiniBand": "InfiniBand", "Ethernet": "Ethernet"}
"""What ibstat prints -> what is handed over; simulated adapters say IB."""


@dataclass(frozen=True)
class Port:
    """Port 1 of an adapter as ibstat shows it."""

    adapter: str
    state: str
    physical: str
    rate_gbps: int
    manager: int
    """LID of the subnet manager that set it up; 0 where none did."""
    link_layer: str

    @property
    def up(self) -> bool:
        """Whether it carries traffic."""
        return self.state == "Active" and self.physical == "LinkUp"


def parse_ports(text: str) -> tuple[Port, ...]:
    """ibstat's blocks, one for each adapter; none at all is an answer, too."""
    return tuple(_port(name, block) for name, block in re.findall(r"^CA '([^']+)'\n(.*?)(?=^CA '|\Z)", text, re.M | re.S))


def _port(name: str, block: str) -> Port:
    said = dict(re.findall(r"^\s+([A-Z][\w ]+): *(.*?) *$", block.partition("Port 1:")[2], re.M))
    layer = said.get("Link layer", "")
    return Port(
        adapter=name,
        state=said["State"],
        physical=said["Physical state"],
        rate_gbps=int(said["Rate"].split()[0]),
        manager=int(said["SM lid"]),
        link_layer=LINK_LAYERS.get(layer, layer),
    )


PORTS = Probe("fabric-ports", on="fabric", command="ibstat", parse=parse_ports)
LINKS = Probe("fabric-links", on="@observer", command="ibnetdiscover -p", parse=read)

ERRORS: Final = frozenset(
    (
        *("SymbolErrorCounter", "LinkErrorRecoveryCounter", "PortRcvErrors", "PortRcvRemotePhysicalErrors"),
        *("LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors"),
    )
)
"""Counters of a bad cable, port or adapter. LinkDownedCounter also counts the reboots of its neighbour, discards and waits count load."""


def parse_errors(text: str) -> dict[End, tuple[str, ...]]:
    """Ports that ibqueryerrors lists, with the counters that mean a bad link, as `SymbolErrorCounter 42`."""
    if "## Summary" not in text:
        raise ValueError("no summary at the end")
    return {end: counters for end, counters in _listed(text) if counters}


def _listed(text: str) -> Iterator[tuple[End, tuple[str, ...]]]:
    name = ""
    for line in text.splitlines():
        if named := re.match(r'^Errors for (?:0x[0-9a-f]+ )?"(.*)"$', line):
            name = device(named[1])
        elif counted := re.match(r"^\s+GUID 0x[0-9a-f]+ port (\d+): *(.*)$", line):
            found = re.findall(r"\[(\w+) == (\d+)", counted[2])
            yield End(name, int(counted[1])), tuple(f"{counter} {count}" for counter, count in found if counter in ERRORS)


COUNTERS = Probe("fabric-errors", on="@observer", command="ibqueryerrors 2>&1", parse=parse_errors, statuses=frozenset({0, 1}))


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
