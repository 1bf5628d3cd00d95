"""All pairs of nodes, each measured once: the schedule of rounds, and verdicts on links, nodes and rails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from rackwright.catalog.reference_values import Quantity
from rackwright.catalog.thresholds import Threshold, tolerance
from rackwright.checks.acceptance.evaluators.speed import shown
from rackwright.checks.acceptance.phase import Finding, Measurement, unknown
from rackwright.report.verdict import Verdict

_LEAST_MET: Final = 2
"""Minimum number of partners: with a single one the cause of a slow link is undecidable."""


def tournament(nodes: Sequence[str]) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Return rounds of disjoint pairs in which each node meets each other once (circle method); with an odd number one rests per round.

    >>> tournament(["a", "b", "c"])
    ((('b', 'c'),), (('a', 'c'),), (('a', 'b'),))
    """
    ring: list[str | None] = [*nodes, *([None] if len(nodes) % 2 else [])]
    rounds = []
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        pairs = zip(ring[:half], reversed(ring[half:]), strict=True)
        rounds.append(tuple((one, other) for one, other in pairs if one is not None and other is not None))
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return tuple(rounds)


@dataclass(frozen=True, slots=True)
class PairResult:
    """The measurement of one pair on one rail; `value` is None if it could not be measured."""

    one: str
    other: str
    rail: str
    value: float | None
    error: str = ""


def pairs(check: str, quantity: Quantity, nodes: Iterable[str], meetings: Sequence[PairResult], limit: Threshold | None) -> list[Finding]:
    """Return one finding per node: unknown if a pair gave no result, failed if slow links are its own and not its partners'."""
    slow = [each for each in meetings if each.value is not None and _slow(quantity, each, meetings, limit)]
    return [_node(check, quantity, node, meetings, _charged(slow, meetings), limit) for node in nodes]


def _slow(quantity: Quantity, meeting: PairResult, meetings: Sequence[PairResult], limit: Threshold | None) -> bool:
    """Return whether a measurement misses the threshold, or what the median of its rail allows."""
    value, margin = meeting.value or 0, tolerance(quantity)
    middle = median([each.value for each in meetings if each.rail == meeting.rail and each.value is not None])
    if quantity.lower_is_better:
        return value > middle * (1 + margin) or (limit is not None and value > limit.value)
    return value < middle * (1 - margin) or (limit is not None and value < limit.value)


def _charged(slow: Sequence[PairResult], meetings: Sequence[PairResult]) -> dict[str, list[PairResult]]:
    """Return slow pairs by the node that causes them: the node that is slow with all partners on that rail; both if undecided."""
    charged: dict[str, list[PairResult]] = {}
    for meeting in slow:
        guilty = [node for node in (meeting.one, meeting.other) if _always_slow(node, meeting.rail, slow, meetings)]
        for node in guilty if len(guilty) == 1 else (meeting.one, meeting.other):
            charged.setdefault(node, []).append(meeting)
    return charged


def _always_slow(node: str, rail: str, slow: Sequence[PairResult], meetings: Sequence[PairResult]) -> bool:
    measured = [each for each in meetings if each.rail == rail and node in (each.one, each.other)]
    return len(measured) >= _LEAST_MET and all(each in slow for each in measured)


def _node(
    check: str,
    quantity: Quantity,
    node: str,
    meetings: Sequence[PairResult],
    charged: Mapping[str, list[PairResult]],
    limit: Threshold | None,
) -> Finding:
    own = [each for each in meetings if node in (each.one, each.other)]
    silent = [each for each in own if each.value is None]
    if not own:
        return unknown(check, node, "it was not paired with another node")
    if silent:
        return unknown(check, node, f"{len(silent)} of {len(own)} pairs gave no result: {_name(silent[0], node)}: {silent[0].error}")
    values = [each.value for each in own if each.value is not None]
    worst = max(values) if quantity.lower_is_better else min(values)
    measured = tuple(
        Measurement(f"{quantity.value}-{name}", value, quantity.unit.value)
        for name, value in (("median", median(values)), ("worst", worst))
    )
    measured += tuple(_of_rails(quantity, node, own))
    rail = f"within {tolerance(quantity):.0%} of the median of its rail"
    least = "at most" if quantity.lower_is_better else "at least"
    expected = f"{least} {shown(quantity, limit.value)} (threshold {limit.id}), {rail}" if limit else rail
    found = f"median {shown(quantity, median(values))}, worst {shown(quantity, worst)}"
    reason = _named(quantity, node, charged.get(node, []), len(own))
    return Finding(check, node, Verdict.FAILED if reason else Verdict.PASSED, reason, expected, found, measured)


def _of_rails(quantity: Quantity, node: str, own: Sequence[PairResult]) -> Iterator[Measurement]:
    """Yield the median of each rail as `quantity/rail`, and its slowest pair as `quantity/rail/partner`.

    Not every pair: of 1000 nodes with 8 rails these would be 4 million figures.
    """
    for rail in dict.fromkeys(each.rail for each in own):
        values = {each.other if each.one == node else each.one: each.value for each in own if each.rail == rail and each.value is not None}
        slowest = (max if quantity.lower_is_better else min)(values, key=values.__getitem__)
        yield Measurement(f"{quantity.value}/{rail}", median(values.values()), quantity.unit.value)
        yield Measurement(f"{quantity.value}/{rail}/{slowest}", values[slowest], quantity.unit.value)


def _named(quantity: Quantity, node: str, slow: Sequence[PairResult], measured: int) -> str:
    """Return the slow links, the first four by name."""
    if not slow:
        return ""
    named = ", ".join(f"{_name(each, node)} {shown(quantity, each.value or 0)}" for each in slow[:4])
    return f"{len(slow)} of {measured} links too slow: {named}" + (", …" if len(slow) > 4 else "")


def _name(meeting: PairResult, node: str) -> str:
    return f"{meeting.other if meeting.one == node else meeting.one} on {meeting.rail}"
