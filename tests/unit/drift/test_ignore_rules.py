"""An ignored difference is expected until the rule's last day; after that the rule is a finding of its own."""

from __future__ import annotations

from datetime import date

import pytest

from rackwright.drift.difference import Category, DriftItem, Layer, LayerScan
from rackwright.drift.ignore_rules import IgnoreRule, apply_ignore_rules

TODAY = date(2026, 11, 23)
OPEN = DriftItem(Layer.BEHAVIOUR, "worker0", "storage.is_mounted", "rw", "ro", Category.BREAKING, "mount it")


def scans(*differences: DriftItem) -> tuple[LayerScan, ...]:
    return tuple(LayerScan(layer, 1.0, differences if layer is Layer.BEHAVIOUR else ()) for layer in Layer)


def allowance(subject: str = "storage.*", node: str = "worker*", until: date = TODAY) -> IgnoreRule:
    return IgnoreRule(subject, node, "disk on order", until)


def found(*allowed: IgnoreRule) -> list[DriftItem]:
    return [one for scan in apply_ignore_rules(scans(OPEN), allowed, TODAY) for one in scan.differences]


def test_rule_applies_through_last_day_with_reason() -> None:
    (only,) = found(allowance())
    assert only.category is Category.EXPECTED and "disk on order" in only.remedy and only.live == "ro"


@pytest.mark.parametrize("other", [{"subject": "munge.*"}, {"node": "login0"}])
def test_rule_covers_nothing_else(other: dict[str, str]) -> None:
    assert found(allowance(**other)) == [OPEN]  # type: ignore[arg-type]


def test_expired_rule_is_itself_a_difference() -> None:
    expired, still = found(allowance(until=date(2026, 11, 22)))
    assert still == OPEN
    assert (expired.live, expired.category, expired.node) == ("expired", Category.BENIGN, "")


def test_expired_rule_is_named_without_differences() -> None:
    quiet = apply_ignore_rules(scans(), [allowance(until=date(2026, 1, 1))], TODAY)
    assert sum(len(scan.differences) for scan in quiet) == 1
