"""Comparison of the output of `ibnetdiscover -p` with the planned cables: missing, misconnected and unplanned ones. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple


class End(NamedTuple):
    """One end of a cable, named as in the inventory."""

    device: str
    """`worker0/mlx5_3`, or a switch."""
    port: int

    @property
    def node(self) -> str | None:
        """Node of the adapter, or None for a switch."""
        return self.device.split("/")[0] if "/" in self.device else None

    def __str__(self) -> str:
        return f"{self.device}:{self.port}"


@dataclass(frozen=True)
class Live:
    """All links that are up, from both ends."""

    far: Mapping[End, End]
    rates: Mapping[End, str]
    """Width and speed, as in `4x NDR`."""
    switches: frozenset[str]


class Kind(StrEnum):
    """How a cable differs from the plan."""

    MISSING = "missing"
    """Neither end has a link."""
    MOVED = "moved"
    """An end is connected to another end than planned."""
    SLOW = "slow"
    """The planned link at another width or speed."""
    UNPLANNED = "unplanned"
    """A link between ends that are not in the plan."""


class Difference(NamedTuple):
    """A cable that differs from the plan."""

    kind: Kind
    end: End
    """The end nearer to the nodes, or the misconnected one."""
    planned: End | None
    found: End | None
    rate: str = ""
    """Width and speed of a slow link."""

    @property
    def node(self) -> str | None:
        """Node at one of the ends, or None for a cable between switches."""
        return self.end.node or (self.planned.node if self.planned else None)

    def as_dict(self) -> dict[str, str | None]:
        """Return the difference as data for JSON."""
        told = {"end": self.end, "planned": self.planned, "found": self.found}
        return {"kind": self.kind.value, **{key: None if end is None else str(end) for key, end in told.items()}, "rate": self.rate or None}

    def __str__(self) -> str:
        return {
            Kind.MISSING: f"{self.end} - {self.planned} is missing",
            Kind.MOVED: f"{self.end} is connected to {self.found} (expected {self.planned})",
            Kind.SLOW: f"{self.end} - {self.planned} runs at {self.rate}",
            Kind.UNPLANNED: f"{self.end} - {self.found} is not planned",
        }[self.kind]


_LINE: Final = re.compile(
    r"^(?:CA|SW|RT)\s+\d+\s+(?P<port>\d+)\s+0x[0-9a-f]+\s+(?P<width>\S+)\s+(?P<speed>\S+)"
    r"\s+-\s+(?:CA|SW|RT)\s+\d+\s+(?P<far_port>\d+)\s+0x[0-9a-f]+\s+\( '(?P<name>.*)' - '(?P<far_name>.*)' \)$"
)
_UNUSED: Final = re.compile(r"^(?P<kind>CA|SW|RT)\s+\d+\s+\d+\s+0x[0-9a-f]+\s+\S+\s+\S+\s+'(?P<name>.*)'$")
_MANAGED: Final = re.compile(r"^MF0;(?P<name>[^:]+):.*$")
"""Node description of a managed NVIDIA switch: `MF0;<host name>:<model>/U1`."""
_WITHIN: Final = "Mellanox Technologies Aggregation Node"
"""Internal adapter of every Quantum switch, for reductions with NVIDIA SHARP, linked with the port after the last one (QM8700: 41,
QM9700: 65). All have this name and are therefore indistinguishable, and no cable leads to them."""


@cache
def read(text: str) -> Live:
    """Parse the output of `ibnetdiscover -p`; raise ValueError if it is empty, truncated or has an invalid line."""
    far: dict[End, End] = {}
    rates: dict[End, str] = {}
    switches: set[str] = set()
    for number, line in enumerate(filter(str.strip, text.splitlines()), start=1):
        if wired := _LINE.match(line.rstrip()):
            if _WITHIN in (wired["name"], wired["far_name"]):
                continue
            near = End(device(wired["name"]), int(wired["port"]))
            far[near] = End(device(wired["far_name"]), int(wired["far_port"]))
            rates[near] = f"{wired['width']} {wired['speed']}"
        elif (unused := _UNUSED.match(line.rstrip())) is None:
            raise ValueError(f"line {number} is not output of `ibnetdiscover -p`: {line.strip()[:80]}")
        elif unused["kind"] == "SW":
            switches.add(device(unused["name"]))
    if not far:
        raise ValueError("contains no link")
    if one_sided := [near for near, other in far.items() if far.get(other) != near]:
        raise ValueError(f"output is truncated: the link of {one_sided[0]} is listed from one end only")
    switches |= {end.device for end in far if end.node is None}
    return Live(far, rates, frozenset(switches))


def device(description: str) -> str:
    """Return the name of a device in the inventory for its node description.

    >>> device("worker0 mlx5_3"), device("leaf-su1-r3"), device("MF0;spine-01:MQM9700/U1")
    ('worker0/mlx5_3', 'leaf-su1-r3', 'spine-01')
    """
    managed = _MANAGED.match(description)
    return managed["name"] if managed else description.replace(" ", "/", 1)


def ends(row: str) -> tuple[End, End]:
    """Return both ends of a cable in the inventory.

    >>> ends("worker0/mlx5_3:1 leaf-su1-r3:1")
    (End(device='worker0/mlx5_3', port=1), End(device='leaf-su1-r3', port=1))
    """
    near, far = (End(name, int(port)) for name, _, port in (word.rpartition(":") for word in row.split()))
    return near, far


def differences(rows: Iterable[str], live: Live, rate: str = "") -> tuple[Difference, ...]:
    """Return every cable that differs: planned ones in the plan's order, then unplanned ones. Include slow links if `rate` is given."""
    planned = [ends(row) for row in rows]
    known = {end for cable in planned for end in cable}
    compared = (_compared(near, far, live, rate) for near, far in planned)
    strays = {_near_first(one, other) for one, other in live.far.items() if one not in known and other not in known}
    return (*filter(None, compared), *(Difference(Kind.UNPLANNED, near, None, far) for near, far in sorted(strays)))


def _compared(near: End, far: End, live: Live, rate: str) -> Difference | None:
    """Return the difference of a planned cable, or None. If only its far end is misconnected, name that end."""
    if live.far.get(near) == far:
        slow = rate and live.rates[near] != rate
        return Difference(Kind.SLOW, near, far, far, live.rates[near]) if slow else None
    if near in live.far:
        return Difference(Kind.MOVED, near, far, live.far[near])
    if far in live.far:
        return Difference(Kind.MOVED, far, near, live.far[far])
    return Difference(Kind.MISSING, near, far, None)


def _near_first(one: End, other: End) -> tuple[End, End]:
    return (one, other) if one.node or (other.node is None and one < other) else (other, one)
