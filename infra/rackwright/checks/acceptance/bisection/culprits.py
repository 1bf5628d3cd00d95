"""Names for what a search found: nodes of one leaf are that leaf, nodes of all leaves are the rail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rackwright.checks.acceptance.bisection.group_test import Culprit, CulpritKind, SearchSpace

Item = tuple[str, ...]
"""Nodes that stay together in a search: one node, or all of a leaf."""


@dataclass
class Slow:
    """Items and paths that a part of the search found to be slow."""

    items: list[Item] = field(default_factory=list)
    """Slow with every other item."""
    undecided: list[Item] = field(default_factory=list)
    """Slow with every other item that they were measured with, and none is left that is known to be as planned."""
    paths: list[tuple[Item, Item]] = field(default_factory=list)
    cliques: list[Item] = field(default_factory=list)
    """Nodes that are slow with each other, and not with others."""

    def add(self, other: Slow) -> None:
        """Add what another part found."""
        for name in ("items", "undecided", "paths", "cliques"):
            getattr(self, name).extend(getattr(other, name))

    def __bool__(self) -> bool:
        return bool(self.items or self.undecided or self.paths or self.cliques)


def culprits_of(slow: Slow, space: SearchSpace, nodes: Sequence[str], rail: str | None) -> list[Culprit]:
    """Return the culprits of one pass over nodes that are slow together."""
    single = {node for item in slow.items for node in item}
    undecided = {node for item in slow.undecided for node in item}
    members = _members(space, nodes, rail)
    if len(nodes) > 2 and single | undecided == set(nodes):
        return [_everything(slow, nodes, members, rail)]
    found = list(_wholes(single, members, rail, len(nodes)))
    covered = {node for culprit in found for node in culprit.nodes}
    found += [Culprit(CulpritKind.NODE, (node,), (node,), rail) for node in nodes if node in single - covered]
    found += [_undecided(tuple(node for node in nodes if node in undecided), rail)] if undecided else []
    found += [_path(path, nodes, members, rail) for path in slow.paths]
    return found + list(_cliques(slow, members, rail))


def _members(space: SearchSpace, nodes: Sequence[str], rail: str | None) -> dict[str, tuple[str, ...]]:
    leaves = dict.fromkeys(space.leaf(node, rail) for node in nodes)
    return {leaf: tuple(node for node in nodes if space.leaf(node, rail) == leaf) for leaf in leaves}


def _everything(slow: Slow, nodes: Sequence[str], members: dict[str, tuple[str, ...]], rail: str | None) -> Culprit:
    """Return the rail or the fabric; the leaves if each is as planned by itself."""
    undecided = bool(slow.undecided)
    if any(len(item) > 1 for item in slow.undecided):
        return Culprit(CulpritKind.LEAF, tuple(members), tuple(nodes), rail, undecided=undecided)
    if rail is None:
        return Culprit(CulpritKind.FABRIC, ("all nodes",), tuple(nodes), undecided=undecided)
    return Culprit(CulpritKind.RAIL, (rail,), tuple(nodes), rail, undecided=undecided)


def _wholes(single: set[str], members: dict[str, tuple[str, ...]], rail: str | None, count: int) -> Iterator[Culprit]:
    """Yield the leaves all of whose nodes are slow: two at least, and not all nodes there are."""
    for leaf, nodes in members.items():
        if leaf and 1 < len(nodes) < count and single.issuperset(nodes):
            yield Culprit(CulpritKind.LEAF, (leaf,), nodes, rail)


def _undecided(nodes: tuple[str, ...], rail: str | None) -> Culprit:
    """Return nodes of which at least one is slow; of two nodes it may also be the path between them."""
    if len(nodes) == 2:
        return Culprit(CulpritKind.PAIR, nodes, nodes, rail, ((nodes[0],), (nodes[1],)), undecided=True)
    return Culprit(CulpritKind.NODE, nodes, nodes, rail, undecided=True)


def _path(path: tuple[Item, Item], nodes: Sequence[str], members: dict[str, tuple[str, ...]], rail: str | None) -> Culprit:
    """Return the leaves if all their paths are slow, the node if all its paths are, otherwise the nodes at both ends."""
    one, other = sorted(path, key=lambda side: nodes.index(side[0]))
    single = next((side for side in (one, other) if len(side) == 1), None)
    if single and len(one) + len(other) == len(nodes) > 2:
        return Culprit(CulpritKind.NODE, single, single, rail)
    names = {frozenset(nodes): leaf for leaf, nodes in members.items() if leaf}
    leaves = tuple(names[frozenset(side)] for side in (one, other) if frozenset(side) in names)
    if len(leaves) == 2 and single is None:
        return Culprit(CulpritKind.LEAF, leaves, (*one, *other), rail, (one, other))
    return Culprit(CulpritKind.PAIR, (*one, *other), (*one, *other), rail, (one, other))


def _cliques(slow: Slow, members: dict[str, tuple[str, ...]], rail: str | None) -> Iterator[Culprit]:
    """Yield leaves that are slow inside only, and other nodes that are slow with each other."""
    nodes = {node for clique in slow.cliques for node in clique}
    for leaf, own in members.items():
        if leaf and nodes.issuperset(own):
            nodes -= set(own)
            yield Culprit(CulpritKind.LEAF, (leaf,), own, rail)
    for clique in slow.cliques:
        if nodes.issuperset(clique):
            yield Culprit(CulpritKind.PAIR, clique, clique, rail, (clique[:1], clique[1:]))
