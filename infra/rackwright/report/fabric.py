"""The fabric as `ibnetdiscover -p` sees it, against the cables that were handed over: what is missing, miswired, or nobody's plan. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple


class End(NamedTuple):
    """One end of a cable, as the hand-over names it."""

    device: str
    """`worker0/mlx5_3`, or a switch."""
    port: int

    @property
    def node(self) -> str | None:
        """The node whose adapter it is; None for a switch."""
        return self.device.split("/")[0] if "/" in self.device else None

    def __str__(self) -> str:
        return f"{self.device}:{self.port}"


@dataclass(frozen=True)
class Live:
    """Every link that is up, from both its ends."""

    far: Mapping[End, End]
    rates: Mapping[End, str]
    """Width and speed, as in `4x NDR`."""
    switches: frozenset[str]


class Kind(StrEnum):
    """How a cable differs from the plan."""

    MISSING = "missing"
    """Neither end has a link."""
    MOVED = "moved"
    """An end is linked with another one than planned."""
    SLOW = "slow"
    """The right link at another width or speed."""
    UNPLANNED = "unplanned"
    """A link between ends of which the plan says nothing."""


class Difference(NamedTuple):
    """One cable that is not as planned."""

    kind: Kind
    end: End
    """The end nearer to the nodes, or the one that is linked with something else."""
    planned: End | None
    found: End | None
    rate: str = ""
    """Width and speed of a slow one."""

    @property
    def node(self) -> str | None:
        """The node that a person goes to; None where it is between switches."""
        return self.end.node or (self.planned.node if self.planned else None)

    def as_dict(self) -> dict[str, str | None]:
        """For JSON."""
        told = {"end": self.end, "planned": self.planned, "found": self.found}
        return {"kind": self.kind.value, **{key: None if end is None else str(end) for key, end in told.items()}, "rate": self.rate or None}

    def __str__(self) -> str:
        return {
            Kind.MISSING: f"{self.end} - {self.planned} is not there",
            Kind.MOVED: f"{self.end} is linked with {self.found}, planned with {self.planned}",
            Kind.SLOW: f"{self.end} - {self.planned} runs at {self.rate}",
            Kind.UNPLANNED: f"{self.end} - {self.found} is not planned",
        }[self.kind]


_LINE: Final = re.compile(
    r"^(?:CA|SW|RT)\s+\d+\s+(?P<port>\d+)\s+0x[0-9a-f]+\s+(?P<width>\S+)\s+(?P<speed>\S+)"
    r"\s+-\s+(?:CA|SW|RT)\s+\d+\s+(?P<far_port>\d+)\s+0x[0-9a-f]+\s+\( '(?P<name>.*)' - '(?P<far_name>.*)' \)$"
)
_UNUSED: Final = re.compile(r"^(?P<kind>CA|SW|RT)\s+\d+\s+\d+\s+0x[0-9a-f]+\s+\S+\s+\S+\s+'(?P<name>.*)'$")
_MANAGED: Final = re.compile(r"^MF0;(?P<name>[^:]+):.*$")
"""A managed NVIDIA switch calls itself `MF0;<host name>:<model>/U1`."""
_WITHIN: Final = "Mellanox Technologies Aggregation Node"
"""What every Quantum switch has within it: the adapter that reduces for NVIDIA SHARP, linked with the port after its last (QM8700: 41,
QM9700: 65). All have this one name, so that they cannot be told apart, and no cable leads there."""


@cache
def read(text: str) -> Live:
    """The cables in what `ibnetdiscover -p` printed; ValueError where a line is no port. Nothing at all is no answer."""
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
            raise ValueError(f"line {number} is not of `ibnetdiscover -p`: {line.strip()[:80]}")
        elif unused["kind"] == "SW":
            switches.add(device(unused["name"]))
    if not far:
        raise ValueError("no link is in it")
    if one_sided := [near for near, other in far.items() if far.get(other) != near]:
        raise ValueError(f"it is cut off: {one_sided[0]} is told from one end alone")
    switches |= {end.device for end in far if end.node is None}
    return Live(far, rates, frozenset(switches))


def device(description: str) -> str:
    """What a device calls itself, as the hand-over names it.

    >>> device("worker0 mlx5_3"), device("leaf-su1-r3"), device("MF0;spine-01:MQM9700/U1")
    ('worker0/mlx5_3', 'leaf-su1-r3', 'spine-01')
    """
    managed = _MANAGED.match(description)
    return managed["name"] if managed else description.replace(" ", "/", 1)


def ends(row: str) -> tuple[End, End]:
    """Both ends of a row of the hand-over.

    >>> ends("worker0/mlx5_3:1 leaf-su1-r3:1")
    (End(device='worker0/mlx5_3', port=1), End(device='leaf-su1-r3', port=1))
    """
    near, far = (End(name, int(port)) for name, _, port in (word.rpartition(":") for word in row.split()))
    return near, far


def differences(rows: Iterable[str], live: Live, rate: str = "") -> tuple[Difference, ...]:
    """Every cable that is not as planned: those of the plan in its order, then what nobody planned. Slow ones where `rate` is given."""
    planned = [ends(row) for row in rows]
    known = {end for cable in planned for end in cable}
    compared = (_compared(near, far, live, rate) for near, far in planned)
    strays = {_near_first(one, other) for one, other in live.far.items() if one not in known and other not in known}
    return (*filter(None, compared), *(Difference(Kind.UNPLANNED, near, None, far) for near, far in sorted(strays)))


def _compared(near: End, far: End, live: Live, rate: str) -> Difference | None:
    """A planned cable. Where only its far end is somewhere else, that is the end to name."""
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
