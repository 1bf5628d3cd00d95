"""Paths between switches: connected networks, shortest paths, choice among equal ones, and the tree for broadcasts. Pure."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_WORD: Final = (1 << 64) - 1
"""Mask of 64 bits, the length of a flow's hash."""
_ODD: Final = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio, odd: multiplicative hashing (Knuth, The Art of Computer Programming 3, 6.4)."""

Ends = tuple[str, str]


def networks(switches: Iterable[str], cables: Mapping[str, Ends]) -> dict[str, str]:
    """Return for each switch the name of its network, which is the first of its switches by name."""
    beside, found = _neighbours(cables), dict[str, str]()
    for first in sorted(switches):
        pending = [] if first in found else [first]
        while pending:
            switch = pending.pop()
            if switch not in found:
                found[switch] = first
                pending += [other for _, other in beside.get(switch, ())]
    return found


def next_hops(cables: Mapping[str, Ends], target: str) -> dict[str, tuple[str, ...]]:
    """Return for each switch from which a path leads to the target the cables that begin a shortest one, by name."""
    beside, hops = _neighbours(cables), {target: 0}
    pending = deque([target])
    while pending:
        switch = pending.popleft()
        for _, other in beside.get(switch, ()):
            if other not in hops:
                hops[other] = hops[switch] + 1
                pending.append(other)
    return {
        switch: tuple(cable for cable, other in beside[switch] if hops[other] == distance - 1)
        for switch, distance in hops.items()
        if switch != target
    }


def spanning_tree(cables: Mapping[str, Ends]) -> frozenset[str]:
    """Return cables that connect every network without a loop, shallow from its first switch by name."""
    beside, reached, tree = _neighbours(cables), set[str](), set[str]()
    for first in sorted(beside):
        pending = deque([first] if first not in reached else [])
        reached.add(first)
        while pending:
            for cable, other in beside[pending.popleft()]:
                if other not in reached:
                    reached.add(other)
                    tree.add(cable)
                    pending.append(other)
    return frozenset(tree)


def salt(cable: str, switch: str) -> int:
    """Return 64 bits for the end of a cable at a switch: the same flow gets an independent choice at each switch."""
    return int.from_bytes(hashlib.blake2b(f"{cable}\0{switch}".encode(), digest_size=8).digest(), "big")


def choose(flow: int, salts: Sequence[int]) -> int:
    """Return the index of the cable that a flow takes: the one with the highest weight (rendezvous hashing, Thaler and Ravishankar 1998).

    A flow keeps its cable while that one is up, whatever happens to the others (compare RFC 2992 on hashes modulo the number of paths).
    """
    best, index = -1, 0
    for number, value in enumerate(salts):
        weight = ((flow ^ value) * _ODD) & _WORD
        weight = ((weight ^ (weight >> 32)) * _ODD) & _WORD
        if weight > best:
            best, index = weight, number
    return index


def _neighbours(cables: Mapping[str, Ends]) -> dict[str, list[tuple[str, str]]]:
    """Return for each switch its cables, by name, with the switch at the other end."""
    found: dict[str, list[tuple[str, str]]] = {}
    for cable, (a, b) in sorted(cables.items()):
        found.setdefault(a, []).append((cable, b))
        found.setdefault(b, []).append((cable, a))
    return found
