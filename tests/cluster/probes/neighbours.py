"""What gets lost between a node and the two that follow it in the plan: a ring, so that nobody is asked by all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from cluster.harness.probe import Place, Probe, scaled

_SENT: Final = 100
"""Echo requests to each; at 2 ms apart they take 0.2 s. One in 100 is the least loss this can show."""
_PATIENCE: Final = 3
"""Seconds for all of them; to two neighbours that are away 6, less than a question may take."""
_COUNTED: Final = re.compile(r"^--- (\S+) ping statistics ---\n(\d+) packets transmitted, (\d+) received,", re.M)


@dataclass(frozen=True)
class Way:
    """How many echo requests to an address were answered."""

    address: str
    sent: int
    answered: int

    @property
    def is_counted(self) -> bool:
        """Whether all were sent: where there was no time for that, the last ones' answers may still be on their way."""
        return self.sent >= _SENT

    @property
    def lost(self) -> float:
        """Percent."""
        return 100 * (self.sent - self.answered) / self.sent


def parse_ways(text: str) -> tuple[Way, ...]:
    """What `ping -q` counted for each address (iputils)."""
    ways = tuple(Way(address, int(sent), int(answered)) for address, sent, answered in _COUNTED.findall(text))
    if not ways or len(ways) != text.count("PING ") or not all(way.sent for way in ways):
        raise ValueError("not every ping was counted")
    return ways


def following(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The next two of a ring, or the only other.

    >>> following(("a", "b", "c", "d"), "c"), following(("a", "b"), "b")
    (('d', 'a'), ('a',))
    """
    at = names.index(name)
    return (names[at + 1 :] + names[:at])[:2]


def _ping(place: Place) -> str:
    nodes = place.declared.nodes
    addresses = " ".join(nodes[name]["address"] for name in following(place.declared.members("nodes"), place.node["name"]))
    # To an address that nobody has it would go on for 46 s (iputils 20240905). Status 1 is silence, which is an answer.
    ping = f"timeout --preserve-status --signal INT {scaled(_PATIENCE)} ping -n -q -c {_SENT} -i 0.002 -W {scaled(1)}"
    return f"for a in {addresses}; do {ping} $a; r=$?; [ $r -le 1 ] || exit $r; done"


WAYS = Probe("ways", on="nodes", command=_ping, parse=parse_ways)
