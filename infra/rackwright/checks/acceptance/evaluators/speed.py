"""Verdicts on speed: a threshold with a source, the cluster's own baseline, the median of a node's peers."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Final

from rackwright.catalog.reference_values import Kind, Quantity, reference_values
from rackwright.catalog.thresholds import Threshold, threshold, tolerance
from rackwright.checks.acceptance.phase import Finding, Measurement, unknown
from rackwright.report.verdict import Verdict

MIN_PEERS: Final = 3
"""Minimum number of peers: of two that differ, the slow one is undecidable."""


def speed(
    check: str,
    quantity: Quantity,
    values: Mapping[str, float],
    *,
    hardware: Mapping[str, str],
    nodes: int = 1,
    baseline: Mapping[str, float] | None = None,
    wanted: Threshold | None = None,
    name: str = "",
) -> list[Finding]:
    """Return one finding per node.

    `values` and `baseline` by node, in the quantity's unit; `hardware` by node, as the catalogue names it.
    """
    found = []
    for node, value in values.items():
        limit = wanted or threshold(quantity, hardware.get(node, ""), nodes)
        peers = [other for each, other in values.items() if each != node and hardware.get(each) == hardware.get(node)]
        reason, expected = _reason(quantity, value, limit, (baseline or {}).get(node), peers)
        wrong = impossible(quantity, value, hardware.get(node, ""), nodes)
        if wrong:
            found.append(unknown(check, node, wrong))
            continue
        measured = Measurement(name or quantity.value, value, quantity.unit.value)
        verdict = Verdict.FAILED if reason else Verdict.PASSED
        found.append(Finding(check, node, verdict, reason, expected, shown(quantity, value), (measured,)))
    return found


def shown(quantity: Quantity, value: float) -> str:
    """Return a value with its unit.

    >>> shown(Quantity.ALL_REDUCE, 174.04)
    '174 GB/s'
    """
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {quantity.unit.value}"


def impossible(quantity: Quantity, value: float, hardware: str, nodes: int) -> str:
    """Return why a value cannot be right: above the specification, or not a positive number."""
    if not 0 < value < float("inf"):
        return f"{value} {quantity.unit.value} is not a measurement"
    same = [
        each for each in reference_values().values() if each.quantity is quantity and each.hardware == hardware and each.kind is Kind.SPEC
    ]
    ceiling = min((each.reported for each in same if nodes in each.nodes), default=None)
    if ceiling is not None and not quantity.lower_is_better and value > ceiling:
        return f"{shown(quantity, value)} is more than the hardware can do ({shown(quantity, ceiling)}): the measurement is wrong"
    return ""


def _reason(quantity: Quantity, value: float, limit: Threshold | None, before: float | None, peers: list[float]) -> tuple[str, str]:
    """Return why a value is too slow, empty if it is not; and the expected value."""
    least, margin = ("at most" if quantity.lower_is_better else "at least"), tolerance(quantity)
    tests = []
    if limit is not None:
        tests.append((limit.value, f"{least} {shown(quantity, limit.value)} (threshold {limit.id})"))
    if before is not None:
        wanted = _allowed(quantity, before, margin)
        tests.append((wanted, f"{least} {shown(quantity, wanted)} ({margin:.0%} from its own baseline, {shown(quantity, before)})"))
    if len(peers) >= MIN_PEERS - 1:
        middle = median([*peers, value])
        wanted = _allowed(quantity, middle, margin)
        tests.append(
            (
                wanted,
                f"{least} {shown(quantity, wanted)} ({margin:.0%} from the median of {len(peers) + 1} peers, {shown(quantity, middle)})",
            )
        )
    for wanted, words in tests:
        if value > wanted if quantity.lower_is_better else value < wanted:
            return f"{shown(quantity, value)}; expected {words}", words
    return "", tests[0][1] if tests else "any value: no published figure exists, and this is the node's first measurement"


def _allowed(quantity: Quantity, reference: float, margin: float) -> float:
    return reference * (1 + margin) if quantity.lower_is_better else reference * (1 - margin)
