"""State of a part of the cluster in a scan: the word that also names its colour."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from rackwright.drift.difference import CLUSTER, Category, DriftItem, Layer, max_category
from rackwright.drift.document import DriftReport

CLEAN: Final = "clean"
UNKNOWN: Final = "unknown"
MARKS: Final = {CLEAN: "✓", UNKNOWN: "?", "drifted": "✗", "security": "✗", "breaking": "✗", "benign": "!", "expected": "~"}
"""Symbols, so that the page is readable without colours."""


def of_node(found: DriftReport, node: str) -> str:
    """Return the most severe category of the node's differences; unknown without differences if a result is missing."""
    category = max_category(one for one in found.differences if one.node == node)
    incomplete = bool(found.missing) or any(name in (node, CLUSTER) for _, name, _ in found.unknown)
    return _word(category, incomplete=incomplete)


def of_subject(found: DriftReport, subject: str, nodes: Collection[str]) -> str:
    """Return the most severe category of a subject, like `fabric`; unknown without differences if one of its nodes is unreachable."""
    here = [one for one in found.differences if one.layer is Layer.BEHAVIOUR and one.subject.startswith(f"{subject}.")]
    unreachable = {node for layer, node, _ in found.unknown if layer is Layer.BEHAVIOUR}
    incomplete = Layer.BEHAVIOUR in found.missing or not unreachable.isdisjoint({CLUSTER, *nodes})
    return _word(max_category(here), incomplete=incomplete)


def count_items(every: Iterable[DriftItem]) -> dict[str, int]:
    """Return the number of differences of each category, the most severe first."""
    every = list(every)
    return {category.value: sum(one.category is category for one in every) for category in reversed(Category)}


def _word(category: Category | None, *, incomplete: bool) -> str:
    if category in (None, Category.EXPECTED) and incomplete:
        return UNKNOWN
    return category.value if category else CLEAN
