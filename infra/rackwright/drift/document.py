"""Result of a drift scan as one document: `rackwright.drift/2`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from rackwright.drift.difference import Category, DriftItem, Layer, LayerScan, max_category

SCHEMA: Final = "rackwright.drift/2"
_SUSPENDED: Final = re.compile(r"suspended by a (signal|debugger)|\bfrozen\b")
"""States of a suspended daemon in the result of its check."""


class State(StrEnum):
    """State of a stack, in ascending rank."""

    CLEAN = "clean"
    DRIFTED = "drifted"
    UNKNOWN = "unknown"

    @property
    def exit_code(self) -> int:
        """Return 0 for clean, 1 for drifted, 3 for unknown."""
        return {State.CLEAN: 0, State.DRIFTED: 1, State.UNKNOWN: 3}[self]


@dataclass(frozen=True, slots=True)
class LastVerified:
    """Last verdict that requires jobs; empty without a record."""

    of: str
    verdict: str = ""
    when: datetime | None = None

    def __str__(self) -> str:
        """Return the verdict as one line.

        >>> str(LastVerified("acceptance"))
        'proven by acceptance: not on record'
        """
        verdict = f"{self.verdict}, {self.when:%Y-%m-%d %H:%M} UTC" if self.when else "not on record"
        return f"proven by {self.of}: {verdict}"

    def as_dict(self) -> dict[str, str | None]:
        """Return the data in the format of the contract."""
        return {"of": self.of, "verdict": self.verdict or None, "when": self.when.isoformat(timespec="seconds") if self.when else None}


@dataclass(frozen=True, slots=True)
class DriftReport:
    """Result of one scan."""

    stack: str
    plan: str
    started: datetime
    seconds: float
    layers: tuple[LayerScan, ...]
    last_verified: tuple[LastVerified, ...] = ()

    def with_layers(self, layers: Iterable[LayerScan]) -> DriftReport:
        """Return the result with other layer results."""
        return replace(self, layers=tuple(layers))

    def with_incomplete_named(self) -> DriftReport:
        """Return the result with incomplete scans as unknown, unless the checks report a suspended daemon, which explains them."""
        if self.names_suspended_daemon:
            return self
        return self.with_layers(replace(scan, unknown=(*scan.unknown, *scan.incomplete)) for scan in self.layers)

    @property
    def names_suspended_daemon(self) -> bool:
        """Return whether a check reports a daemon that exists and does not run."""
        found = [one for scan in self.layers if scan.layer is Layer.BEHAVIOUR for one in scan.differences]
        return any(_SUSPENDED.search(one.live) for one in found)

    @property
    def differences(self) -> tuple[DriftItem, ...]:
        """Return the differences of all layers, the most severe category first, then by node and subject."""
        order = list(Category)
        every = [one for scan in self.layers for one in scan.differences]
        return tuple(sorted(every, key=lambda one: (-order.index(one.category), one.node, one.subject)))

    @property
    def unknown(self) -> tuple[tuple[Layer, str, str], ...]:
        """Return (layer, node, reason) of every unknown result."""
        return tuple((scan.layer, node, why) for scan in self.layers for node, why in scan.unknown)

    @property
    def grouped(self) -> tuple[tuple[DriftItem, ...], ...]:
        """Return the differences, grouped if they are the same on several nodes."""
        found: dict[tuple[str, ...], list[DriftItem]] = {}
        for one in self.differences:
            found.setdefault((one.category, one.layer, one.subject, one.declared, one.live), []).append(one)
        return tuple(map(tuple, found.values()))

    @property
    def unreachable(self) -> tuple[tuple[Layer, str, tuple[str, ...]], ...]:
        """Return (layer, reason, nodes) of every unknown result, nodes with the same reason together."""
        found: dict[tuple[Layer, str], list[str]] = {}
        for layer, node, why in self.unknown:
            found.setdefault((layer, why), []).append(node)
        return tuple((layer, why, tuple(nodes)) for (layer, why), nodes in found.items())

    @property
    def missing(self) -> tuple[Layer, ...]:
        """Return the layers that were not scanned."""
        scanned = {scan.layer for scan in self.layers}
        return tuple(layer for layer in Layer if layer not in scanned)

    @property
    def state(self) -> State:
        """Return clean only if all three layers were scanned completely and every difference is expected."""
        if self.unknown or self.missing:
            return State.UNKNOWN
        return State.CLEAN if max_category(self.differences) in (None, Category.EXPECTED) else State.DRIFTED

    def as_dict(self) -> dict[str, Any]:
        """Return the document in the format of the contract."""
        return {
            "schema": SCHEMA,
            "stack": self.stack,
            "plan": self.plan,
            "started": self.started.isoformat(timespec="milliseconds"),
            "seconds": round(self.seconds, 3),
            "layers": [scan.as_dict() for scan in self.layers],
            "differences": [one.as_dict() for one in self.differences],
            "totals": {category.value: sum(one.category is category for one in self.differences) for category in Category},
            "state": self.state.value,
            "last_verified": [one.as_dict() for one in self.last_verified],
        }
