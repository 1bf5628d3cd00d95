"""Differences that the stack file accepts until a date, and the report of entries whose date has passed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fnmatch import fnmatchcase

from rackwright.drift.difference import CLUSTER, Category, DriftItem, Layer, LayerScan


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """A difference that the stack file ignores: subject, node, reason and last day. `subject` and `node` are shell patterns (`fnmatch`)."""

    subject: str
    node: str
    reason: str
    until: date

    def covers(self, one: DriftItem) -> bool:
        """Return whether the rule applies to this difference."""
        return fnmatchcase(one.subject, self.subject) and fnmatchcase(one.node, self.node)


def apply_ignore_rules(scans: Iterable[LayerScan], allowed: Sequence[IgnoreRule], today: date) -> tuple[LayerScan, ...]:
    """Return the scans with ignored differences as expected ones, and one more difference for each expired rule."""
    valid = [one for one in allowed if today <= one.until]
    expired = [_expired(one) for one in allowed if one.until < today]
    found = [replace(scan, differences=tuple(_categorize(one, valid) for one in scan.differences)) for scan in scans]
    return tuple(replace(scan, differences=(*scan.differences, *expired)) if scan.layer is Layer.CONFIGURATION else scan for scan in found)


def _categorize(one: DriftItem, valid: Iterable[IgnoreRule]) -> DriftItem:
    for allowance in valid:
        if allowance.covers(one):
            return replace(one, category=Category.EXPECTED, remedy=f"allowed until {allowance.until}: {allowance.reason}")
    return one


def _expired(allowance: IgnoreRule) -> DriftItem:
    what = f"{allowance.subject} on {allowance.node}"
    return DriftItem(
        layer=Layer.CONFIGURATION,
        node=CLUSTER,
        subject=f"drift.ignore {what}",
        declared=f"allowed until {allowance.until}: {allowance.reason}",
        live="expired",
        category=Category.BENIGN,
        remedy="remove the entry from `drift.ignore` in the stack file, or set a later date and a reason",
    )
