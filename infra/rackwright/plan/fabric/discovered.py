"""What `ibnetdiscover -p` found, compared with the plan. Its text is fixed columns, each cable once from either end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from rackwright.errors import CouldNotTell
from rackwright.plan.fabric.netlist import description
from rackwright.plan.fabric.shape import FabricPlan
from rackwright.plan.fabric.wiring import Wiring

_END: Final = r"(CA|SW|RT)\s+\d+\s+(\d+)\s+0x[0-9a-f]{16}"
_LINKED: Final = re.compile(rf"{_END}\s+(\d+x)\s+(.+?)\s+-\s+{_END}\s+\(\s'(.*)'\s-\s'(.*)'\s\)")
_UNUSED: Final = re.compile(rf"{_END}\s+(\S+)\s+(\S+)\s+'.*'")
_MANAGED: Final = re.compile(r"MF0;([^:]+):.*")
"""How a managed NVIDIA switch describes itself: `MF0;leaf-su1-r0:MQM9700/U1`."""


class End(NamedTuple):
    """One end of a cable: how its device describes itself, and the port."""

    device: str
    port: int

    def __str__(self) -> str:
        return f"{self.device} port {self.port}"


class Kind(StrEnum):
    """How a fabric differs from its plan."""

    MISSING = "missing"
    """The end nearer to the nodes has no link."""
    MOVED = "moved"
    """An end is linked with another one than planned."""
    UNPLANNED = "unplanned"
    """A link between ends of which the plan says nothing."""
    SLOW = "slow"
    """The right link at another width or speed."""


@dataclass(frozen=True, order=True)
class Difference:
    """One cable that is not as planned."""

    kind: Kind
    end: str
    planned: str | None
    found: str | None

    def __str__(self) -> str:
        return {
            Kind.MISSING: f"{self.end}: no link, planned to {self.planned}",
            Kind.MOVED: f"{self.end}: linked with {self.found}, planned to {self.planned}",
            Kind.UNPLANNED: f"{self.end}: linked with {self.found}, which is not planned",
            Kind.SLOW: f"{self.end} to {self.planned}",
        }[self.kind] + (f": {self.found}" if self.kind is Kind.SLOW else "")


def discovered(text: str) -> dict[End, tuple[End, str]]:
    """End -> the other end and the link's width and speed, `4x NDR`. CouldNotTell where the text is empty, cut off or something else."""
    links: dict[End, tuple[End, str]] = {}
    for number, line in enumerate(filter(str.strip, text.splitlines()), start=1):
        found = _LINKED.fullmatch(line.strip())
        if found:
            one = End(_name(found[7]), int(found[2]))
            other = End(_name(found[8]), int(found[6]))
            links[one] = (other, f"{found[3]} {found[4]}")
        elif not _UNUSED.fullmatch(line.strip()):
            raise CouldNotTell(f"line {number} is not of `ibnetdiscover -p`: {line.strip()[:80]}", hint=_AGAIN)
    one_sided = [one for one, (other, _) in links.items() if links.get(other, (None, ""))[0] != one]
    if not links or one_sided:
        raise CouldNotTell("no link is in it" if not links else f"it is cut off: {one_sided[0]} is told from one end alone", hint=_AGAIN)
    return links


_AGAIN: Final = "run `ibnetdiscover -p` again, on a node whose port is active, and keep all of its output"


def _name(said: str) -> str:
    managed = _MANAGED.fullmatch(said)
    return managed[1] if managed else said


def compare(fabric: FabricPlan, laid: Wiring, text: str) -> tuple[Difference, ...]:
    """Everything that is not as planned; empty where all of it is."""
    return tuple(sorted(_differences(planned(laid), discovered(text), f"{fabric.width} {fabric.speed}")))


def planned(laid: Wiring) -> dict[End, End]:
    """The end of each cable that is nearer to the nodes -> its other end."""
    return {End(description(cable.device), cable.port): End(cable.switch, cable.switch_port) for cable in laid.cables}


def _differences(planned: Mapping[End, End], live: Mapping[End, tuple[End, str]], rate: str) -> Iterator[Difference]:
    for near, far in planned.items():
        found, seen = live.get(near, (None, ""))
        if found is None:
            yield Difference(Kind.MISSING, str(near), str(far), None)
        elif found != far:
            yield Difference(Kind.MOVED, str(near), str(far), str(found))
        elif seen != rate:
            yield Difference(Kind.SLOW, str(near), str(far), f"{seen} instead of {rate}")
    for one, (other, _) in live.items():
        if one < other and one not in planned and other not in planned:
            yield Difference(Kind.UNPLANNED, str(one), None, str(other))
