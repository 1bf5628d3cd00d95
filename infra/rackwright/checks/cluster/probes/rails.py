"""Probes of the rails of virtual machines: full frames to neighbours on each rail, and the GIDs of the RDMA devices."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext, scaled
from rackwright.checks.cluster.harness.tool_output import Lines, quoted, read_each_line, words
from rackwright.checks.cluster.probes.neighbours import ring_neighbours

_HEADERS: Final = 28
"""Bytes of IPv4 (RFC 791, without options) and ICMP (RFC 792) before the data of an echo request."""
_ECHOES: Final = 3
"""Echo requests to each neighbour. One reply is enough, so that a lossy rail does not count as one with small frames."""
_ABSENT: Final = 2
"""Seconds after which a neighbour counts as not reached. A node pings all neighbours in parallel."""
_END: Final = "end|"
_NAMES: Final = re.compile(r"[a-z][a-z0-9_-]*")


class Frames(Enum):
    """Frames that reach a neighbour on a rail and return."""

    FULL = "full frames"
    SMALL = "small frames only"
    NONE = "no reply"


@dataclass(frozen=True)
class RailReach:
    """The frames that reach a neighbour over an interface."""

    interface: str
    neighbour: str
    frames: Frames


def parse_rail_frames(text: str) -> Lines[RailReach]:
    """Return the result of each line `interface neighbour status status`, and a last line `end|`.

    The statuses are those of ping(8) with full frames and, if these have no reply, with small ones: 0 for a reply.

    >>> parse_rail_frames("eth1 worker1 1 0\\nend|\\n")["worker1 on eth1"].frames.value
    'small frames only'
    """
    if _END not in text:
        raise ValueError(f'the pings did not end: "{quoted(text)}"')
    return read_each_line(text, _reach)


def _reach(line: str) -> tuple[str, RailReach] | None:
    if line.strip() == _END:
        return None
    interface, neighbour, full, small = line.split()
    if not _NAMES.fullmatch(interface) or not _NAMES.fullmatch(neighbour):
        raise ValueError("not the name of an interface and of a node")
    frames = {("0", "-"): Frames.FULL, ("1", "0"): Frames.SMALL, ("2", "0"): Frames.SMALL, ("1", "1"): Frames.NONE}
    frames |= {("2", "2"): Frames.NONE, ("2", "1"): Frames.NONE, ("1", "2"): Frames.NONE}
    return f"{neighbour} on {interface}", RailReach(interface, neighbour, frames[full, small])


def rail_neighbours(context: ProbeContext) -> Iterator[tuple[Any, str, Any]]:
    """Yield each rail of a node with the next two nodes of the ring of nodes on the fabric, and their cards of this rail."""
    nodes = context.declared.nodes
    ring = tuple(name for name in context.declared.members("fabric") if nodes[name].get("rail_interfaces"))
    for number, own in enumerate(context.node.get("rail_interfaces") or ()):
        for name in ring_neighbours(ring, context.node["name"]):
            yield own, name, nodes[name]["rail_interfaces"][number]


def _frames_command(context: ProbeContext) -> str:
    """Return the command; a node without rails pings no neighbour."""
    pings = [_ping(own, name, other) for own, name, other in rail_neighbours(context)]
    return f"{' '.join(pings)} wait; echo '{_END}'" if pings else f"echo '{_END}'"


def _ping(own: Any, name: str, other: Any) -> str:
    interface = shlex.quote(own["name"])
    ping = f"ping -n -q -c {_ECHOES} -i 0.2 -W 1 -w {scaled(_ABSENT)} -I {interface}"
    full = f"{ping} -M do -s {own['mtu'] - _HEADERS} {other['address']} > /dev/null 2>&1; full=$? small=-"
    small = f"[ $full = 0 ] || {{ {ping} {other['address']} > /dev/null 2>&1; small=$?; }}"
    return f"{{ {full}; {small}; echo {interface} {shlex.quote(name)} $full $small; }} &"


RAIL_FRAMES = Probe("rail-frames", on="fabric", command=_frames_command, parse=parse_rail_frames)


@dataclass(frozen=True)
class Gid:
    """An entry of the GID table of an RDMA device."""

    device: str
    address: str
    """IPv4 or IPv6 address."""
    kind: str
    """`RoCE v2` or `IB/RoCE v1`, as the kernel prints it."""
    card: str


def parse_gids(text: str) -> Lines[Gid]:
    """Return the GIDs by device and index, from lines `device|index|GID|type|card`, and a last line `end|`.

    >>> parse_gids("rxe0|1|0000:0000:0000:0000:0000:ffff:c612:0018|RoCE v2|eth1\\nend|\\n")["rxe0 1"].address
    '198.18.0.24'
    """
    if _END not in text.split():
        raise ValueError(f'the list has no end: "{quoted(text)}"')
    return read_each_line(text, _gid)


def _gid(line: str) -> tuple[str, Gid] | None:
    if line.strip() == _END:
        return None
    device, index, gid, kind, card = line.split("|")
    if kind not in _KINDS or not _NAMES.fullmatch(card) or len(gid) != _GID_LENGTH:
        raise ValueError("not a GID")
    full = IPv6Address(gid)
    address: IPv4Address | IPv6Address = full.ipv4_mapped or full
    return f"{words(device)} {int(index)}", Gid(device, str(address), kind, card)


_KINDS: Final = frozenset({"IB/RoCE v1", "RoCE v2"})
"""Types of GIDs (Linux: drivers/infiniband/core/cache.c, gid_type_str)."""
_GID_LENGTH: Final = len("0000:0000:0000:0000:0000:ffff:c612:0018")
# The table of rxe has 1024 entries, nearly all of them zeros: they are left out by one process.
_GIDS: Final = (
    "cd /sys/class/infiniband 2> /dev/null || { echo 'end|'; exit 0; }; "
    "for g in $(grep -slv '^0000:0000:0000:0000:0000:0000:0000:0000$' */ports/1/gids/*); do d=${g%%/*} i=${g##*/}; read -r gid < $g; "
    "read -r kind < $d/ports/1/gid_attrs/types/$i; read -r card < $d/ports/1/gid_attrs/ndevs/$i; "
    "echo \"$d|$i|$gid|$kind|$card\"; done; echo 'end|'"
)
GIDS = Probe("gids", on="fabric", command=_GIDS, parse=parse_gids)
