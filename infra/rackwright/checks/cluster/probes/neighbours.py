"""Probes of packet loss to the next two nodes of a ring, in the plan and on each network, so that no node receives the packets of all."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Interface
from typing import Any, Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext, ProbeStage, scaled
from rackwright.checks.cluster.harness.tool_output import Lines, json_documents, read_each_line
from rackwright.errors import UndeterminedError

_SENT: Final = 100
"""Number of echo requests to each neighbour. At 2 ms apart they take 0.2 s. One in 100 is the smallest loss that this can show."""
_AGAIN: Final = 200
"""Number of echo requests of the second series, 5 ms apart, after a loss in the first one. Loss in the network is in both. On a busy node,
ping stops for 100 ms and more, so that replies can overflow its socket of 64 KiB (iputils, ping_common.c, sock_setbufs). Emulated machines
lost 7 of 100 replies that way or another, and no frame in their network."""
_PATIENCE: Final = 3
"""Time limit of a series, in seconds. Two neighbours that are down take 6 s, less than the limit of a probe; they get no second series."""
_FEWEST: Final = 50
"""Requests with a known outcome from which loss is judged. Chosen: half of them."""
_COUNTED: Final = re.compile(r"^--- (\S+) ping statistics ---\n(\d+) packets transmitted, (\d+)( packets)? received,", re.M)
_LAST_REPLY: Final = re.compile(r"^\d+ bytes from .*seq=(\d+) ", re.M)


@dataclass(frozen=True)
class PingStatistics:
    """Echo requests to an address, sent and answered."""

    address: str
    sent: int
    answered: int
    last: int | None = None
    """Number of requests up to the last one that was answered; None if ping did not print it."""

    @property
    def is_counted(self) -> bool:
        """Return whether the outcome of enough requests is known. After an earlier end, the last replies may still be in transit."""
        return self.sent >= _SENT and (self.last is None or self.last >= _FEWEST)

    @property
    def loss_percent(self) -> float:
        """Return the loss in percent of the requests sent.

        Requests after the last reply are not lost: ping waits for them no longer than twice the longest round trip before
        (iputils, ping_common.c, schedule_exit), and a busy node replies later.
        """
        known = self.sent if self.last is None else self.last
        return 100 * max(known - self.answered, 0) / self.sent


def parse_ping_statistics(text: str) -> tuple[PingStatistics, ...]:
    """Return the statistics of `ping` for each address, followed by its last reply.

    iputils counts requests from 1; inetutils and busybox print `packets received` and count from 0.
    """
    pings = re.split(r"^(?=PING )", text.replace("\r\n", "\n"), flags=re.M)
    ways = tuple(way for way in map(_statistics, pings) if way is not None)
    if not ways or len(ways) != len([ping for ping in pings if ping.startswith("PING ")]) or not all(way.sent for way in ways):
        raise ValueError("not every ping was counted")
    return ways


def _statistics(text: str) -> PingStatistics | None:
    """Return the statistics of one ping; None without them."""
    found, reply = _COUNTED.search(text), _LAST_REPLY.search(text)
    if found is None:
        return None
    address, sent, answered, counts_from_zero = found.groups()
    return PingStatistics(address, int(sent), int(answered), int(reply[1]) + bool(counts_from_zero) if reply else None)


def ring_neighbours(names: tuple[str, ...], name: str, most: int = 2) -> tuple[str, ...]:
    """Return the next `most` names of a ring, or all others if there are fewer.

    >>> ring_neighbours(("a", "b", "c", "d"), "c"), ring_neighbours(("a", "b"), "b")
    (('d', 'a'), ('a',))
    """
    at = names.index(name)
    return (names[at + 1 :] + names[:at])[:most]


def _ping(context: ProbeContext) -> str:
    nodes = context.declared.nodes
    return ping_command(nodes[name]["address"] for name in ring_neighbours(context.declared.members("nodes"), context.node["name"]))


def ping_command(addresses: Iterable[str]) -> str:
    """Return the shell command that prints the statistics of `ping` for each address, followed by its last reply."""
    # For an address without a host, ping would run 46 s (iputils 20240905). Status 1 means no reply, which is a result.
    limited = f"timeout --preserve-status --signal INT {scaled(_PATIENCE)} ping -n -W {scaled(1)}"
    series = f"o=$({limited} -c {_SENT} -i 0.002 $a); r=$?"
    again = f"o=$({limited} -c {_AGAIN} -i 0.005 $a); r=$?"
    confirmed = f"""case "$o" in *" 0% packet loss"*|*" 100% packet loss"*) ;; *) {again} ;; esac"""
    # Of the replies, only the last one is printed, after the statistics.
    short = "sed -n -e '/bytes from/{h;d;}' -e p -e '${x;p;}'"
    return f"for a in {' '.join(addresses)}; do {series}; {confirmed}; [ $r -le 1 ] || exit $r; printf '%s\\n' \"$o\" | {short}; done"


PING_STATISTICS = Probe("ways", on="nodes", command=_ping, parse=parse_ping_statistics)


_KINDS: Final = frozenset({"", "bond", "ipoib", "team", "veth", "vlan"})
"""Kinds of links to other machines: ip-link(8), TYPES. Nodes of a lab have a veth. Bridges and tunnels have networks of their own."""
_ECHOES: Final = 5
"""Echo requests to each neighbour of a network. One reply is enough, so that a lossy path does not count as a missing one."""
_ABSENT: Final = 2
"""Seconds after which a neighbour counts as not reached. A node pings all neighbours in parallel."""
_FARTHEST: Final = 8
"""Number of nodes of the ring among which a node selects two with an address on its networks: nodes of one group have the same networks."""
_NO_SHARED_NETWORK: Final = "- - - -"
"""Output of a node that shares no network with these nodes."""


@dataclass(frozen=True)
class Interface:
    """An interface with a network that other nodes may share."""

    name: str
    address: str
    network: str
    kind: str


def parse_interfaces(text: str) -> tuple[Interface, ...]:
    """Return primary addresses of `ip -json -details -4 address`, without those that are valid on one link only (169.254.0.0/16)."""
    (links,) = json_documents(text)
    return tuple(one for link in links for one in _interfaces(link))


def _interfaces(link: dict[str, Any]) -> Iterator[Interface]:
    for one in link.get("addr_info", ()):
        if one.get("family", "inet") != "inet" or "local" not in one:  # iproute2 prints {} for an address that a filter excludes
            continue
        address = IPv4Interface(f"{one['local']}/{one['prefixlen']}")
        if not one.get("secondary") and address.network.prefixlen < 32 and not address.is_link_local:
            yield Interface(link["ifname"], one["local"], str(address.network), link.get("linkinfo", {}).get("info_kind", ""))


INTERFACES = Probe("interfaces", on="nodes", command="ip -json -details -4 address show scope global up", parse=parse_interfaces)


@dataclass(frozen=True)
class Reachability:
    """Whether a neighbour responded on a network."""

    neighbour: str
    interface: str
    network: str
    answered: bool


def parse_reachability(text: str) -> Lines[Reachability]:
    """Return the results of lines `interface network neighbour status`: 0 for a reply, 1 for none (ping(8), exit status)."""
    if not text.strip():
        raise ValueError("no ping ended")
    return read_each_line(text, _reach)


def _reach(line: str) -> tuple[str, Reachability] | None:
    if line == _NO_SHARED_NETWORK:
        return None
    interface, network, neighbour, status = line.split()
    return f"{neighbour} on {interface}", Reachability(neighbour, interface, network, {"0": True, "1": False}[status])


def _reach_command(context: ProbeContext) -> str:
    """Return the command: on each network, ping the next two nodes that have an address there, preferably on the same interface."""
    mine = {one.network: one for one in _networks(context, context.node["name"])}
    found: dict[str, list[tuple[str, Interface]]] = {network: [] for network in mine}
    count = 0
    for name in ring_neighbours(context.declared.members("nodes"), context.node["name"], _FARTHEST):
        try:
            shared = _networks(context, name)
        except UndeterminedError:  # the checks of that node report the error
            continue
        count += 1
        for network, own in mine.items():
            there = [one for one in shared if one.network == network and one.address != own.address]
            there.sort(key=lambda one: one.name != own.name)
            found[network] += [(name, one) for one in there[:1]]
        if all(len(neighbours) >= 2 for neighbours in found.values()):
            break
    if not count:
        raise UndeterminedError("no neighbour listed its addresses")
    pings = [_ping_one(mine[network], name, one) for network, neighbours in found.items() for name, one in neighbours[:2]]
    return f"{' '.join(pings)} wait" if pings else f"echo {_NO_SHARED_NETWORK}"


def _networks(context: ProbeContext, name: str) -> list[Interface]:
    """Return a node's links to other machines, and the link of any kind with its planned address."""
    planned = context.declared.nodes[name]["address"]
    return [one for one in context.earlier_result(INTERFACES, name) if one.kind in _KINDS or one.address == planned]


def _ping_one(own: Interface, name: str, one: Interface) -> str:
    interface = shlex.quote(own.name)
    ping = f"ping -n -q -c {_ECHOES} -i 0.1 -W 1 -w {scaled(_ABSENT)} -I {interface} {one.address}"
    return f"{{ {ping} > /dev/null 2>&1; echo {interface} {own.network} {shlex.quote(name)} $?; }} &"


REACHABILITY = Probe("reaches", on="nodes", command=_reach_command, parse=parse_reachability, stage=ProbeStage.SECOND)
